#!/usr/bin/env python3
"""Looks at the C++ sources with Clang's tools. Usage: check_clang.py tidy|thread-safety [--seconds=N] [FILE...]

tidy: clang-tidy, as .clang-tidy says. thread-safety: clang -fsyntax-only -Wthread-safety -Werror over the sources that
see absl/synchronization/mutex.h. Prints the findings; exit 1 if there are any. Needs build/compile_commands.json and the
generated messages: check.sh makes both.

A source once found clean is not looked at again until it, a header of ours that it sees, a message it sees, its command
line, its .clang-tidy or the tool changes: a file named by the hash of all these lies in ccache's folder. The sources
that commits touched last come first. --seconds: begins no further source after that long; the rest is counted, is no
failure, and is where the next run goes on. FILE: only these.

Others' headers take most of the time that a source takes, so several sources are looked at as one, joined line by line.
A source that does not compile beside others is looked at alone. Joining hides one thing: a using-declaration that is
unused in its own source but not in its neighbour.
"""
import argparse
import bisect
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OWN_FOLDERS = ("common/", "label_party/", "nonlabel_party/", "deploy/", "tests/")
MUTEX_HEADER = "absl/synchronization/mutex.h"
MOST_JOINED = 20
KEPT_DAYS = 60
# What a remembered result rests on besides the sources: change it with the way the tools are called.
WAY_OF_LOOKING = "1"


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
    """Source -> compiler arguments without compiler, launcher, source and output."""
    database = ROOT / "build" / "compile_commands.json"
    if not database.is_file():
        sys.exit(f"check_clang.py: expected {database}, found none: run cmake --preset release")
    found = {}
    for entry in json.loads(database.read_text()):
        file = pathlib.Path(entry["directory"], entry["file"])
        # What is compiled as one (splitveil_join in CMakeLists.txt) is looked at source by source.
        joined = file.parent.name == "joined"
        paths = re.findall(r'#include "(.+)"', file.read_text()) if joined else [os.path.relpath(file, ROOT)]
        paths = [path for path in paths if path.startswith(OWN_FOLDERS)]
        if not paths:
            continue
        words = shlex.split(entry["command"])
        compiler = max(i for i, word in enumerate(words) if re.search(r"(^|/)(c\+\+|g\+\+|clang\+\+)[-\d.]*$", word))
        arguments, skip = [], False
        for word in words[compiler + 1:]:
            if skip or word in ("-c", "-o", entry["file"]):
                skip = word == "-o" and not skip
            else:
                arguments.append(word)
        found.update((path, tuple(arguments)) for path in paths)
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


def settings_of(path):
    """The .clang-tidy files that hold for a source, the nearest first."""
    folders = (ROOT / path).parents
    return [folder / ".clang-tidy" for folder in folders
            if folder.is_relative_to(ROOT) and (folder / ".clang-tidy").is_file()]


class Cache:
    """Hashes of what was found clean."""

    def __init__(self, mode, tool_version):
        folder = output_of("ccache", "--get-config", "cache_dir").strip()
        self._folder = pathlib.Path(folder or pathlib.Path.home() / ".cache" / "ccache") / "splitveil_clean"
        self._mode = mode
        self._salt = "\0".join([mode, tool_version, WAY_OF_LOOKING])
        for old in self._folder.glob("*/*") if self._folder.is_dir() else ():
            if time.time() - old.stat().st_mtime > KEPT_DAYS * 86400:
                old.unlink(missing_ok=True)

    def key(self, path, arguments, sources):
        settings = [file.read_text() for file in settings_of(path)] if self._mode == "tidy" else []
        digest = hashlib.sha256("\0".join([self._salt, *settings, *arguments]).replace(str(ROOT), "").encode())
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


class Names:
    """What each file declares at file scope, as far as single lines tell."""

    _TYPE = re.compile(r"#\s*define\s+(\w+)|TEST\w*\((\w+,\s*\w+)|using\s+(\w+)\s*=|"
                       r"(?:class|struct|union|enum(?: class)?)\s+(\w+)(?!\w|;)")
    _OTHER = re.compile(r"(?!using|namespace|template|TEST|INSTANTIATE|})[^=({;]*?\b(\w+)\s*[=({;[]")

    def __init__(self, sources):
        self._sources, self._of_file = sources, {}

    def _declared(self, path):
        """(types and macros, functions and variables); a source's own functions are those that no header declares."""
        if path not in self._of_file:
            types, others, unnamed, header = set(), set(), False, path.endswith(".h")
            for line in self._sources.text(path).decode().split("\n"):
                unnamed = line == "namespace {" or unnamed and not line.startswith("}  // namespace")
                match = self._TYPE.match(line)
                if match:
                    types.add(match.group(match.lastindex))
                elif re.match(r"[A-Za-z]", line) and (header or unnamed or line.startswith(("int main", "extern"))):
                    match = self._OTHER.match(line)
                    others |= {match.group(1)} if match else set()
            self._of_file[path] = (types, others)
        return self._of_file[path]

    def seen_from(self, path):
        """(types, others): name -> files of ours that declare it"""
        types, others = {}, {}
        for seen in self._sources.seen_from(path):
            if seen.endswith((".h", ".cc")) and self._sources.text(seen) is not None:
                for found, names in zip((types, others), self._declared(seen)):
                    for name in names:
                        found.setdefault(name, set()).add(seen)
        return types, others

    @staticmethod
    def clash(one, other):
        """Whether two sources as one would declare a type twice, or a source's own function besides another's."""
        types, others = ({**one[i], **other[i]} for i in range(2))
        def differing(i, name):
            return one[i].get(name, other[i].get(name)) ^ other[i].get(name, one[i].get(name))
        return (any(differing(0, name) for name in types) or
                any(file.endswith(".cc") for name in others for file in differing(1, name)) or
                any(name in others for name in types))


def batches(paths, known, sources, most):
    """The sources in lists to look at as one each: of the same settings and command line, without clashing names."""
    names = Names(sources)
    found = []  # (kind, names, paths)
    for path in paths:
        # Where splitveil::testing is declared, testing:: is no longer GoogleTest's.
        ours = any(b"namespace splitveil::testing" in (sources.text(seen) or b"") for seen in sources.seen_from(path))
        kind, seen = (known[path], settings_of(path), ours), names.seen_from(path)
        for other_kind, others_seen, joined in found:
            if len(joined) < most and other_kind == kind and not names.clash(others_seen, seen):
                for i in range(2):
                    for name, files in seen[i].items():
                        others_seen[i].setdefault(name, set()).update(files)
                joined.append(path)
                break
        else:
            found.append((kind, seen, [path]))
    return [joined for _, _, joined in found]


class Joined:
    """Several sources as one file."""

    def __init__(self, paths, sources, folder):
        self._paths, self._first_lines = paths, []
        self.file = ROOT / paths[0]
        if len(paths) > 1:
            # Under copies of the .clang-tidy that hold for the sources.
            folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
            for settings in settings_of(paths[0]):
                copy = folder / settings.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(settings.read_text())
            self.file = folder / os.path.dirname(paths[0]) / "joined.cc"
            self.file.parent.mkdir(parents=True, exist_ok=True)
            lines = []
            for path in paths:
                self._first_lines.append(len(lines) + 1)
                lines += sources.text(path).decode().split("\n")
            self.file.write_text("\n".join(lines) + "\n")

    def _place(self, match):
        line = int(match.group(1))
        index = bisect.bisect_right(self._first_lines, line) - 1
        return f"{self._paths[index]}:{line - self._first_lines[index] + 1}:"

    def findings(self, output):
        """Text of each finding, by the file it lies in."""
        if len(self._paths) > 1:
            output = re.sub(re.escape(str(self.file)) + r":(\d+):", self._place, output)
        output = output.replace(str(ROOT) + "/", "").strip()
        found = {}
        for finding in re.split(r"\n(?=\S+:\d+:\d+: (?:fatal error|error|warning))", output) if output else ():
            found.setdefault(finding.split(":", 1)[0], []).append(finding)
        return found


class Tool:
    """clang-tidy or clang; remembers what it finds clean."""

    def __init__(self, mode, command, known, sources, cache, keys, folder):
        self._mode, self._command, self._known, self._sources = mode, command, known, sources
        self._cache, self._keys, self._folder = cache, keys, folder

    def look_at(self, paths):
        """[(sources looked at as one, findings by file)]"""
        joined = Joined(paths, self._sources, self._folder)
        arguments = self._known[paths[0]]
        if self._mode == "tidy":
            command = [self._command, "--quiet", str(joined.file), "--", *arguments, "-Wno-unknown-warning-option"]
        else:
            command = [self._command, *arguments, str(joined.file), "-fsyntax-only", "-Wthread-safety", "-Werror",
                       "-Wno-unknown-warning-option"]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        # clang-tidy counts the suppressed findings of others' headers on standard error.
        findings = {} if done.returncode == 0 else joined.findings(
            done.stdout if self._mode == "tidy" and done.stdout.strip() else done.stderr)
        if done.returncode != 0 and len(paths) > 1:
            broken = [path for path, texts in findings.items() if any(map(self._does_not_compile, texts))]
            if broken or not findings:
                alone = [path for path in paths if path in broken] or paths
                rest = [path for path in paths if path not in alone]
                return [result for part in [[path] for path in alone] + [rest] if part for result in self.look_at(part)]
        if set(findings) <= set(paths) and (findings or done.returncode == 0):
            for path in paths:
                if path not in findings:
                    self._cache.add(self._keys[path])
        elif not findings:
            findings = {paths[0]: [f"{paths[0]}: {self._command} ended with {done.returncode}"]}
        return [(paths, findings)]

    def _does_not_compile(self, finding):
        first = finding.split("\n", 1)[0]
        return first.endswith("[clang-diagnostic-error]") if self._mode == "tidy" else not first.endswith("]")


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
    keys = {path: cache.key(path, known[path], sources) for path in wanted}
    todo = [path for path in wanted if not cache.holds(keys[path])]
    deadline = None if options.seconds is None else time.monotonic() + options.seconds
    workers = os.cpu_count() or 1
    todo_batches = batches(todo, known, sources, min(MOST_JOINED, -(-len(todo) // workers)))

    found, skipped, failed = set(), 0, set()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(workers) as pool:
        look = Tool(options.mode, tool, known, sources, cache, keys, folder).look_at

        def in_time(paths):
            return look(paths) if deadline is None or time.monotonic() <= deadline else None

        for paths, results in zip(todo_batches, pool.map(in_time, todo_batches)):
            if results is None:
                skipped += len(paths)
                continue
            for looked_at, findings in results:
                # A header's finding is one of every source that was looked at with it.
                failed |= set(findings) if set(findings) <= set(looked_at) else set(looked_at)
                for finding in (text for texts in findings.values() for text in texts):
                    if finding not in found:
                        found.add(finding)
                        print(finding, flush=True)
    print(f"{options.mode}: {len(wanted)} sources: {len(wanted) - len(todo)} known to be clean, "
          f"{len(todo) - skipped - len(failed)} found clean, {len(failed)} with findings, "
          f"{skipped} left for lack of time")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
