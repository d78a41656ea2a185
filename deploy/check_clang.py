#!/usr/bin/env python3
"""Looks at the C++ sources with Clang's tools. Usage: check_clang.py tidy|thread-safety [--seconds=N] [FILE...]

tidy: clang-tidy, as .clang-tidy says. thread-safety: clang -fsyntax-only -Wthread-safety -Werror over the sources that
see absl/synchronization/mutex.h. Prints the findings; exit 1 if there are any. Needs build/compile_commands.json and the
generated messages: check.sh makes both.

A source once found clean is not looked at again until it, a header of ours that it sees, a message it sees, its command
line, .clang-tidy or the tool changes: a file named by the hash of all these lies in ccache's folder. The sources that
commits touched last come first. --seconds: begins no further source after that long; the rest is counted, is no failure,
and is where the next run goes on. FILE: only these.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OWN_FOLDERS = ("common/", "label_party/", "nonlabel_party/", "deploy/", "tests/")
MUTEX_HEADER = "absl/synchronization/mutex.h"
KEPT_DAYS = 60


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=False).stdout


class Sources:
    """What every source of ours sees, from its text."""

    def __init__(self):
        self._texts, self._included = {}, {}

    def text(self, path):
        if path not in self._texts:
            self._texts[path] = (ROOT / path).read_bytes() if (ROOT / path).is_file() else None
        return self._texts[path]

    def _resolve(self, path, name):
        """Path of an included file of ours or of the .proto behind it; None: not ours."""
        message = re.fullmatch(r"(splitveil/v1/\w+)(?:\.grpc)?\.pb\.h|(splitveil/v1/\w+)\.proto", name)
        candidates = ([f"proto/{message.group(1) or message.group(2)}.proto"] if message else
                      [name, os.path.normpath(os.path.join(os.path.dirname(path), name))])
        return next((candidate for candidate in candidates if self.text(candidate) is not None), None)

    def includes(self, path):
        """Ours as paths, others by the name included."""
        if path not in self._included:
            found = re.findall(rb'^[ \t]*(?:#[ \t]*include|import)[ \t]*["<]([^">]+)[">]', self.text(path), re.MULTILINE)
            self._included[path] = {self._resolve(path, name.decode()) or name.decode() for name in found}
        return self._included[path]

    def seen_from(self, path):
        seen, todo = set(), [path]
        while todo:
            current = todo.pop()
            if current not in seen:
                seen.add(current)
                todo += self.includes(current) if self.text(current) is not None else ()
        return seen


def commands():
    """Source -> compiler arguments without compiler, launcher and output."""
    database = ROOT / "build" / "compile_commands.json"
    if not database.is_file():
        sys.exit(f"check_clang.py: expected {database}, found none: run cmake --preset release")
    found = {}
    for entry in json.loads(database.read_text()):
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        if not path.startswith(OWN_FOLDERS):
            continue
        words = shlex.split(entry["command"])
        compiler = max(i for i, word in enumerate(words) if re.search(r"(^|/)(c\+\+|g\+\+|clang\+\+)[-\d.]*$", word))
        arguments, skip = [], False
        for word in words[compiler + 1:]:
            if skip or word in ("-c", "-o"):
                skip = word == "-o" and not skip
            else:
                arguments.append(word)
        found[path] = (entry["directory"], arguments)
    return found


def by_recency(paths, sources):
    """Those first that the latest commits, or edits not committed yet, touched, themselves or a header of theirs."""
    touched = (output_of("git", "diff", "--name-only", "HEAD") +
               output_of("git", "log", "-n", "300", "--name-only", "--format=")).split()
    age = {}
    for position, path in enumerate(touched):
        age.setdefault(path, position)
    never = len(touched)
    return sorted(paths, key=lambda path: (min(age.get(seen, never) for seen in sources.seen_from(path)), path))


class Cache:
    """Hashes of what was found clean."""

    def __init__(self, mode, tool_version):
        folder = output_of("ccache", "--get-config", "cache_dir").strip()
        self._folder = pathlib.Path(folder or pathlib.Path.home() / ".cache" / "ccache") / "splitveil_clean"
        settings = sorted(ROOT.glob(".clang-tidy")) + sorted(ROOT.glob("tests/**/.clang-tidy")) if mode == "tidy" else []
        self._salt = "\0".join([mode, tool_version, pathlib.Path(__file__).read_text()] +
                               [path.read_text() for path in settings])
        for old in self._folder.glob("*/*") if self._folder.is_dir() else ():
            if time.time() - old.stat().st_mtime > KEPT_DAYS * 86400:
                old.unlink(missing_ok=True)

    def key(self, path, arguments, sources):
        digest = hashlib.sha256(self._salt.encode())
        digest.update("\0".join(arguments).replace(str(ROOT), "").encode())
        for seen in sorted(sources.seen_from(path)):
            digest.update(f"\0{seen}\0".encode() + (sources.text(seen) or b""))
        return digest.hexdigest()

    def holds(self, key):
        path = self._folder / key[:2] / key
        if not path.is_file():
            return False
        path.touch()
        return True

    def add(self, key):
        (self._folder / key[:2]).mkdir(parents=True, exist_ok=True)
        (self._folder / key[:2] / key).touch()


def main():
    parser = argparse.ArgumentParser(usage="check_clang.py tidy|thread-safety [--seconds=N] [FILE...]")
    parser.add_argument("mode", choices=("tidy", "thread-safety"))
    parser.add_argument("--seconds", type=int, default=None)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    tool = "clang-tidy" if options.mode == "tidy" else "clang++"
    version = output_of(tool, "--version")
    if not version:
        sys.exit(f"check_clang.py: expected {tool}, found none: run deploy/install_dependencies.sh --tests")
    if options.mode == "tidy" and "bugprone-" not in output_of(tool, "--list-checks"):
        sys.exit("check_clang.py: expected bugprone checks among clang-tidy's, found none: is .clang-tidy well-formed?")

    sources, known, cache = Sources(), commands(), Cache(options.mode, version)
    wanted = [os.path.relpath(os.path.abspath(path), ROOT) for path in options.files] or by_recency(known, sources)
    unknown = [path for path in wanted if path not in known]
    if unknown:
        sys.exit(f"check_clang.py: expected sources that CMake compiles, found {', '.join(unknown)}")
    if options.mode == "thread-safety":
        wanted = [path for path in wanted if MUTEX_HEADER in sources.seen_from(path)]
    keys = {path: cache.key(path, known[path][1], sources) for path in wanted}
    todo = [path for path in wanted if not cache.holds(keys[path])]
    deadline = None if options.seconds is None else time.monotonic() + options.seconds

    def look_at(path):
        """(findings or None, seconds); findings is None where there was no time left."""
        start = time.monotonic()
        if deadline is not None and start > deadline:
            return None
        directory, arguments = known[path]
        if options.mode == "tidy":
            command = [tool, "--quiet", "-p", str(ROOT / "build"), str(ROOT / path)]
        else:
            command = [tool, *arguments, "-fsyntax-only", "-Wthread-safety", "-Werror", "-Wno-unknown-warning-option"]
        done = subprocess.run(command, cwd=ROOT if options.mode == "tidy" else directory, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode == 0:
            cache.add(keys[path])
            return ""
        # clang-tidy counts the suppressed findings of others' headers on standard error.
        return done.stdout.strip() if options.mode == "tidy" and done.stdout.strip() else done.stderr.strip()

    findings, skipped = set(), 0
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for path, result in zip(todo, pool.map(look_at, todo)):
            if result is None:
                skipped += 1
            elif result:
                failed += 1
                for finding in re.split(r"\n(?=\S+:\d+:\d+: (?:error|warning))", result):
                    if finding not in findings:  # A header's, from every source that sees it.
                        findings.add(finding)
                        print(finding.replace(str(ROOT) + "/", ""), flush=True)
    print(f"{options.mode}: {len(wanted)} sources: {len(wanted) - len(todo)} known to be clean, "
          f"{len(todo) - skipped - failed} found clean, {failed} with findings, {skipped} left for lack of time")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
