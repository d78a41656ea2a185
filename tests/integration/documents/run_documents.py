"""Runs the commands of documents as a reader would.

Usage: run_documents.py ROOT PROGRAMS [--all_but] DOCUMENT...
  ROOT: the source tree; PROGRAMS: the folder of the programs; DOCUMENT: relative to ROOT; --all_but: every other one

Every `sh` block is run in a scratch copy of the source tree, one after the other, each where the one before it ended. A
fence may add `exit=CODES`, `background` (runs on while the following blocks run, must end well) and `on=MACHINE` (starts
in a folder of that machine's own). An `output` block after it must be what it prints, numbers apart. README.md says what
is not run. Exit code 1 where anything is wrong.
"""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import blocks
import stand_ins

LIMIT_SECONDS = 150


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Reader:
    """One reader with one copy of the source tree. Not to be used twice."""

    def __init__(self, root, programs, scratch):
        self.scratch = scratch / "splitveil"
        shutil.copytree(root, self.scratch, symlinks=True, ignore=self._ignored)
        self.log = scratch / "not_run.log"
        self.log.touch()
        front = stand_ins.install(root, self.scratch, programs, self.log)
        # Not 4,000 rows: an epoch's last batch has 38 of them then, often too few positives for an attack that knows
        # five, and an audit fails a run with too many such steps.
        self.environment = dict(os.environ, PATH=":".join(map(str, front)) + ":" + os.environ["PATH"],
                                OPENBLAS_NUM_THREADS="1", SPLITVEIL_DEMO_ROWS="4600")
        self.folders = {}  # Where each machine's latest block ended.
        self._use_free_ports()
        self.mistakes = []

    @staticmethod
    def _ignored(folder, names):
        return [name for name in names if name in (".git", "out", "__pycache__") or re.match(r"build($|-)", name)]

    def _use_free_ports(self):
        """7443 and 7444 may be taken on this machine; other machines are this one."""
        ports = {name: str(free_port()) for name in ("7443", "7444")}
        for file in [*self.scratch.rglob("*.textproto"), *self.scratch.rglob("*.md")]:
            text = file.read_text()
            for name, port in ports.items():
                text = re.sub(rf"\b(non)?label-party\.example\.com:{name}\b", f"127.0.0.1:{port}", text)
                text = re.sub(rf"\b{name}\b", port, text)
            file.write_text(text)

    def _start(self, block):
        machine = block.words.get("on", "")
        default = self.scratch / "machines" / machine if machine else self.scratch
        default.mkdir(parents=True, exist_ok=True)
        ended = self.scratch / f"ended-{machine}"
        body = f"cd {self.folders.get(machine, default)}\n{block.text}\n"
        if "background" not in block.words:  # Else it would be written while others read it.
            body += f"pwd >{ended}\n"
        output = tempfile.TemporaryFile("w+")
        child = subprocess.Popen(["bash", "-euo", "pipefail", "-c", body], env=self.environment, stdout=output,
                                 stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        return child, output, time.monotonic()

    def _finish(self, path, block, started):
        child, output, since = started
        try:
            code = child.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            code = f"none after {LIMIT_SECONDS} s"
        try:
            os.killpg(child.pid, 9)  # What the block left behind.
        except ProcessLookupError:
            pass
        output.seek(0)
        text = output.read()
        machine = block.words.get("on", "")
        ended = self.scratch / f"ended-{machine}"
        if ended.exists():
            self.folders[machine] = ended.read_text().strip()
        expected = block.words.get("exit", "0").split(",")
        print(f"{path}:{block.line}: exit {code}, {time.monotonic() - since:.1f} s: "
              f"{block.text.strip().splitlines()[0][:90]}", flush=True)
        if str(code) not in expected:
            self.mistakes.append(f"{path}:{block.line}: expected exit {' or '.join(expected)}, found {code}; it printed:\n"
                                 + "".join(f"    {line}\n" for line in text.splitlines()[-25:]))
        return text

    def _check_output(self, path, block, printed):
        line = blocks.missing_output(block.text, printed)
        if line is not None:
            self.mistakes.append(f"{path}:{block.line}: the command does not print this line: {line}\nit printed:\n"
                                 + "".join(f"    {found[:200]}\n" for found in printed.splitlines()[-40:]))

    def _check_inline(self, path, prose):
        for number, words in blocks.inline_commands(prose):
            subcommand = [word for word in words[1:3] if re.fullmatch(r"[a-z_]+", word)]
            command = [str(self.scratch / "build/bin" / words[0]), *subcommand, "--help"]
            done = subprocess.run(command, capture_output=True, text=True, env=self.environment, check=False)
            for flag in (word.split("=")[0] for word in words if word.startswith("--")):
                if done.returncode != 0 or flag not in done.stdout + " --help --version":
                    self.mistakes.append(f"{path}:{number}: {' '.join(words)}: unknown flag {flag} or command")

    def read(self, path):
        """Runs a document, path relative to the root. It begins in the root's copy, which keeps what others left."""
        self.folders = {}
        file = self.scratch / path
        try:
            all_blocks, prose = blocks.parse(file)
        except ValueError as error:
            self.mistakes.append(str(error))
            return
        for mistake in [*blocks.check_fences(file, all_blocks), *blocks.check_links(file, prose, self.scratch),
                        *blocks.check_file_names(file, prose, self.scratch)]:
            self.mistakes.append(mistake.replace(str(self.scratch) + "/", ""))
        self._check_inline(path, prose)
        background, printed = [], {}  # Output blocks are judged at the end, when those in the background have ended.
        latest = None
        for block in all_blocks:
            if block.kind == "sh":
                latest = block.line
                if "background" in block.words:
                    background.append((block, self._start(block)))
                else:
                    printed[latest] = self._finish(path, block, self._start(block))
            elif block.kind == "output":
                block.words["of"] = latest
        for block, started in background:
            printed[block.line] = self._finish(path, block, started)
        for block in all_blocks:
            if block.kind == "output":
                self._check_output(path, block, printed.get(block.words["of"], ""))


def main():
    if len(sys.argv) < 4:
        sys.exit("run_documents.py: expected ROOT PROGRAMS [--all_but] DOCUMENT...")
    root, programs = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory(prefix="splitveil-documents-") as scratch:
        reader = Reader(root, programs, pathlib.Path(scratch))
        documents = sys.argv[3:]
        if documents[0] == "--all_but":
            every = [str(file.relative_to(reader.scratch)) for file in reader.scratch.rglob("*.md")]
            documents = sorted(set(every) - set(documents))
        for document in documents:
            reader.read(document)
        print("\nNot run, and why:")
        print("".join(f"  {line}\n" for line in reader.log.read_text().splitlines()) or "  nothing")
    for mistake in reader.mistakes:
        print(mistake, file=sys.stderr)
    return 1 if reader.mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
