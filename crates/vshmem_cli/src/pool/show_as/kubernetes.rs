//! The part of a Kubernetes pod's template that gives it a pool of its node (hostPath volumes,
//! kubernetes.io/docs/concepts/storage/volumes). Not tried on a cluster.

use super::host_pool::HostPool;

/// The part, to be merged into the template.
pub fn template(pool: &HostPool) -> String {
    let (path, volume) = (pool.path.display(), label(&pool.name));
    format!(
        "spec:
  volumes:
  - name: {volume}
    hostPath:
      path: {path}
      type: File
  containers:
  - name: main
    env:
    - name: VSHMEM_POOL
      value: \"{}\"
    volumeMounts:
    - name: {volume}
      mountPath: {path}
",
        pool.reference()
    )
}

/// A volume's name is a DNS label: small letters, digits and '-', at most 63, and neither begins
/// nor ends with '-'.
fn label(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let text: String = name.chars().map(allowed).collect();
    format!("vshmem-{}", text.trim_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_volumes_are_dns_labels() {
        assert_eq!(label("job7"), "vshmem-job7");
        assert_eq!(label("Team_a.b-"), "vshmem-team-a-b");
    }
}
