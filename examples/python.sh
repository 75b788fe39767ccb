# Sets `python` to one that has the module sysv_ipc, or to nothing: PYTHON, the first in PATH, the system's, or the one of
# tests/third_party.
python=
for one in "${PYTHON:-python3}" /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/../build/third_party/sysv_ipc/venv/bin/python"; do
	if "$one" -c 'import sysv_ipc' 2>/dev/null; then python=$one; break; fi
done
