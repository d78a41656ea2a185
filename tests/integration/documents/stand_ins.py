"""Programs that stand in, on PATH or in the scratch copy, for those that a test cannot run, or not as they are.

Each is one shell script: it runs and checks what can be, notes in not_run.log what was not run and why, and succeeds.
"""
import pathlib
import re
import shutil
import stat

# Not ours: what they need is not there in a test.
FOREIGN = {
    "apt-get": "installs packages", "docker": "needs a Docker engine",
    "docker-compose": "needs a Docker engine", "cmake": "compiles", "ctest": "runs every test", "cpack": "packs what is built; integration_deploy_package does so",
    "systemctl": "needs an init system", "xdg-open": "opens a browser",
}
# Ours: syntax and flags are checked.
SCRIPTS = {
    "deploy/build.sh": "compiles; what is built already serves",
    "deploy/test.sh": "compiles and runs every test", "deploy/compose_demo.sh": "needs a Docker engine",
    "deploy/examples/train.sh": "trains for minutes on data that are not part of the repository",
}
# Examples that generate their data: run, with fewer rows (SPLITVEIL_DEMO_ROWS) and one seed.
GENERATED_EXAMPLES = ("multi_class", "regression")

_HEAD = """#!/bin/bash
# Stands in for {name} while the documents are tested.
note() {{ echo "$*" >>"{log}"; }}
# Every --flag of the arguments must occur in the text on standard input.
known_flags() {{
  local text argument
  text=$(cat)
  for argument in "$@"; do
    case $argument in --*) grep -q -e "${{argument%%=*}}" <<<"$text" ||
      {{ echo "{name}: unknown flag $argument" >&2; exit 2; }} ;; esac
  done
}}
"""


def _write(path, name, log, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_HEAD.format(name=name, log=log) + body)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def _script(scratch, name, why, log):
    original = scratch / "originals" / name
    original.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(scratch / name, original)
    body = f'bash -n "{original}" && known_flags "$@" <"{original}" || exit 2\n'
    if name.endswith("build.sh"):
        body += f"""for target in "$@"; do
  [[ $target == --* ]] || [ -x "{scratch}/build/bin/$target" ] || {{ echo "{name}: no program $target" >&2; exit 2; }}
done
"""
    if name.endswith("train.sh"):
        # Beside its stand-in, from where it finds the rest.
        shutil.copy(original, scratch / "deploy/examples/train_really.sh")
        body += f"""case $1 in {"|".join(GENERATED_EXAMPLES)})
  note "{name} $*: run with fewer rows and one seed"; exec "{scratch}/deploy/examples/train_really.sh" "$@" ;; esac
e="{scratch}/deploy/examples/$1"
splitveil validate --agreement="$e/run.textproto" --label_config="$e/label_party.textproto" \\
  --nonlabel_config="$e/nonlabel_party.textproto" || exit 2
"""
    _write(scratch / name, name, log, body + f'note "{name} $*: {why}"\n')


def _splitveil(scratch, programs, log):
    body = f"""# 40 runs of some seconds each: planned, not run. 25 of a stream: what they would begin with is validated.
case "$*" in sweep*deploy/demo/sweep.textproto*)
  note "splitveil $*: trains for minutes; planned with --dry_run"; set -- "$@" --dry_run ;;
stream*/stream.textproto*)
  note "splitveil $*: trains for minutes; its configurations validated"
  config=${{2#--config=}}
  set -- validate "--agreement=${{config%.textproto}}.run.textproto" \
    "--label_config=${{config%.textproto}}.label_party.textproto" \
    "--nonlabel_config=${{config%.textproto}}.nonlabel_party.textproto" ;;
esac
exec "{programs}/splitveil" "$@"
"""
    _write(scratch / "build/bin/splitveil", "splitveil", log, body)


def install(root, scratch, programs, log):
    """Puts all of them into `scratch`, a copy of the source tree `root`. Returns the folders that go to the front of PATH."""
    machines = scratch / "machines"
    for name, why in FOREIGN.items():
        _write(scratch / "stand_ins" / name, name, log, f'note "{name} $*: {why}"\n')
    # What would be installed for everybody goes into a folder of the copy's own.
    _write(scratch / "stand_ins/sudo", "sudo", log, f"""if [ "$1" != install ] || [[ ${{*: -1}} != /* ]]; then
  note "sudo $*: needs another user's rights"
  exit 0
fi
note "sudo $*: run, into {scratch / 'root'}"
mkdir -p "{scratch}/root${{*: -1}}" && exec install "${{@:2:$#-2}}" "{scratch}/root${{*: -1}}"
""")
    # What reads the history asks the tree that was copied, if it has any.
    git = shutil.which("git")
    _write(scratch / "stand_ins/git", "git", log, f"""if [ "$1" = log ] && "{git}" -C "{root}" "$@" 2>/dev/null; then exit 0; fi
note "git $*: fetches from elsewhere, or needs a checkout"
""")
    # The other machine is another folder here.
    _write(scratch / "stand_ins/scp", "scp", log, f"""target=${{*: -1}}
case $target in
  label-party.*) host=label_party ;;
  nonlabel-party.*) host=nonlabel_party ;;
  *) echo "scp: expected label-party.HOST: or nonlabel-party.HOST:, found $target" >&2; exit 2 ;;
esac
mkdir -p "{machines}/$host/${{target#*:}}" && cp -r "${{@:1:$#-1}}" "{machines}/$host/${{target#*:}}"
""")
    for example in GENERATED_EXAMPLES:
        sweep = scratch / "deploy/examples" / example / "sweep.textproto"
        if sweep.exists():
            sweep.write_text(re.sub(r"(?m)^seeds: .*$", "seeds: [1]", sweep.read_text()))
    for program in ("label_party", "nonlabel_party", "centralized_baseline"):
        (scratch / "build/bin").mkdir(parents=True, exist_ok=True)
        (scratch / "build/bin" / program).symlink_to(programs / program)
    _splitveil(scratch, programs, log)
    for name, why in SCRIPTS.items():
        _script(scratch, name, why, log)
    return [scratch / "stand_ins", scratch / "build/bin"]
