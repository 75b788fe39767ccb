//! Tables for other programs.

use super::series::Series;
use crate::study::journal::Contents;

/// A line for each figure of each case.
pub fn summary(all: &[Series<'_>]) -> String {
    let mut text = String::from(
        "case,group,bench,size,model,environment,ranks,figure,unit,n,median,mean,variance,low_95,high_95,low_97,high_97,\
         min,max,outliers,interrupts_per_second,switches_per_second,emulated\n",
    );
    for series in all {
        let Some(sum) = series.sum() else { continue };
        let case = series.case;
        let ends = |interval: Option<crate::Interval>| match interval {
            Some(one) => [one.low.to_string(), one.high.to_string()],
            None => [String::new(), String::new()],
        };
        let ([low_95, high_95], [low_97, high_97]) = (ends(sum.at_95), ends(sum.at_97));
        let odd = sum.figures.iter().filter(|(_, odd)| *odd).count();
        text += &line(&[
            case.name.clone(),
            case.group.name().into(),
            case.bench.clone(),
            case.n.to_string(),
            case.model.name().into(),
            case.environment.name().into(),
            case.ranks.to_string(),
            series.figure.member.clone(),
            series.figure.unit.clone(),
            sum.moments.n.to_string(),
            sum.spread.median.to_string(),
            sum.moments.mean.to_string(),
            sum.moments.variance.to_string(),
            low_95,
            high_95,
            low_97,
            high_97,
            sum.spread.min.to_string(),
            sum.spread.max.to_string(),
            odd.to_string(),
            format!("{:.1}", series.interrupts),
            format!("{:.1}", series.switches),
            series.emulated.unwrap_or_default().to_owned(),
        ]);
    }
    text
}

/// A line for each run.
pub fn samples(contents: &Contents, all: &[Series<'_>]) -> String {
    let mut text = String::from(
        "case,repetition,figure,value,unit,outlier,load,steal_percent,interrupts_per_second,switches_per_second,ended\n",
    );
    for series in all {
        let odd = crate::study::outliers::marks(&series.list());
        for ((repetition, value), odd) in series.values.iter().zip(odd) {
            let sample = contents
                .samples
                .iter()
                .find(|sample| sample.case == series.case.name && sample.repetition == *repetition);
            let around = sample.map(|sample| sample.around).unwrap_or_default();
            text += &line(&[
                series.case.name.clone(),
                repetition.to_string(),
                series.figure.member.clone(),
                value.to_string(),
                series.figure.unit.clone(),
                u8::from(odd).to_string(),
                around.load.to_string(),
                format!("{:.2}", around.steal_percent),
                format!("{:.1}", around.interrupts),
                format!("{:.1}", around.switches),
                around.ended.to_string(),
            ]);
        }
    }
    text
}

/// As RFC 4180 has it, but for the line's end.
fn line(cells: &[String]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = writer.write_record(cells);
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_have_to_be() {
        assert_eq!(line(&["a".into(), "b,c".into(), "d\"e".into()]), "a,\"b,c\",\"d\"\"e\"\n");
    }
}
