#!/usr/bin/env python3
"""Checks the rules of the C++ sources that a compiler does not. Usage: check_sources.py REPOSITORY.

Prints one line per violation, "structure: FILE...: what was expected, what was found"; exit 1 if there is any. It reads
the text as clang-format leaves it (definitions start in the first column), not a syntax tree: a second, not minutes.
"""
import collections
import os
import re
import sys

OWN_FOLDERS = ("common", "label_party", "nonlabel_party", "deploy", "tests")
MAX_PURE_VIRTUALS = 6
MAX_CONSTRUCTOR_PARAMETERS = 6

STANDARD_LOCKS = re.compile(r"\bstd::(?:(?:recursive_|shared_|timed_|recursive_timed_|shared_timed_)?mutex"
                            r"|condition_variable(?:_any)?)\b")
STANDARD_LOCKS_ALLOWED = "tests/testing/thread_sanitizer/absl_mutex.cc"  # Of which it makes absl::Mutex.
# The wall clock, and the waits that follow it: a clock that is set would end a run, or make it wait.
WALL_CLOCK = re.compile(r"\babsl::Now\b|\bsystem_clock\b"
                        r"|\b(?:Wait|Await|(?:Reader)?LockWhen|WaitForNotification)With(?:Timeout|Deadline)\b")
WALL_CLOCK_FOLDERS = ("common/", "label_party/", "nonlabel_party/")
# They write it down, or ask which day it is.
WALL_CLOCK_ALLOWED = ("common/checkpoint/alignment_cache.cc", "common/dataset/drift_watch.cc",
                      "common/ledger/ledger_database.cc", "common/privacy_account/account_file.cc",
                      "common/telemetry/log.cc")

violations = 0


def violation(text):
    """Reports one."""
    global violations
    print("structure:", text)
    violations += 1


def find_files(folders, endings):
    """Paths relative to the repository, sorted."""
    found = []
    for folder in folders:
        for parent, children, names in os.walk(folder):
            children[:] = [c for c in children
                           if c not in (".git", "out", "__pycache__") and not re.match(r"build|cmake-build", c)]
            found += [os.path.relpath(os.path.join(parent, name)) for name in names if name.endswith(endings)]
    return sorted(set(found))


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def blank(match):
    """Spaces in place of the text, so that lines and columns stay."""
    return re.sub(r"[^\n]", " ", match.group())


TOKENS_WITHOUT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)


def without_comments(text):
    """The code, with comments, string and character literals blanked out."""
    return TOKENS_WITHOUT_CODE.sub(blank, text)


def without_templates(line):
    """The line with <...> cut out, innermost first."""
    previous = None
    while previous != line:
        previous = line
        line = re.sub(r"<[^<>]*>", "", line)
    return line


def closing(text, start, opening="{", end="}"):
    """Index just behind the bracket that closes the one at `start`."""
    depth = 0
    for index in range(start, len(text)):
        if text[index] == opening:
            depth += 1
        elif text[index] == end:
            depth -= 1
            if depth == 0:
                return index + 1
    return len(text)


def classes_in(code):
    """(name, body with nested braces emptied, line) of each class and struct defined in `code`."""
    for match in re.finditer(r"\b(?:class|struct)\s+((?:\w+::)*\w+)\b(?:\s+final)?\s*(?::[^;{()]*)?\{", code):
        if re.search(r"\benum\s+$", code[:match.start()]):
            continue
        start = match.end() - 1
        body = code[start + 1:closing(code, start) - 1]
        flat, depth = [], 0
        for character in body:
            depth -= character == "}"
            if depth == 0:
                flat.append(character)
            depth += character == "{"
        yield match.group(1).split("::")[-1], "".join(flat), code.count("\n", 0, match.start()) + 1


SCOPE = re.compile(r"\b(namespace|class|struct|union|enum(?:\s+(?:class|struct))?)\s+((?:\[\[\w+\]\]\s*)?(?:\w+::)*\w+)?"
                   r"(?:\s+final)?\s*(?::(?!:)[^;{}()]*)?$")


def defined_names(code):
    """(qualified name, line) of each class, struct, union and enum that others may see: not those in functions or in
    unnamed namespaces, of which every file may have its own."""
    scopes, begin = [], 0
    for match in re.finditer(r"[{};]", code):
        if match.group() == "{":
            found = SCOPE.search(code[begin:match.start()].rstrip())
            name = (found.group(2) or "") if found else ""
            if name and all(scopes) and found.group(1) != "namespace":
                yield "::".join([*scopes, name]), code.count("\n", 0, match.start()) + 1
            scopes.append(name)
        elif match.group() == "}" and scopes:
            scopes.pop()
        begin = match.end()


def check_one_definition(codes):
    """Two types of one qualified name: in one binary the linker keeps one of their functions, silently."""
    places = collections.defaultdict(list)
    for path, code in codes.items():
        for name, line in defined_names(code):
            places[name].append(f"{path}:{line}")
    for name, found in sorted(places.items()):
        if len(found) > 1:
            violation(f"{name}: expected one definition, found {', '.join(found)}")


def count_parameters(text):
    """How many parameters a list without its parentheses has."""
    text = without_templates(text.replace("->", ""))
    depth, commas = 0, 0
    for character in text:
        depth += character in "({["
        depth -= character in ")}]"
        commas += character == "," and depth == 0
    return commas + 1 if text.strip() and text.strip() != "void" else 0


def check_classes(path, code):
    """Interfaces of too many pure virtuals, constructors of too many parameters."""
    for name, body, line in classes_in(code):
        pure = len(re.findall(r"\)[^;(){}]*=\s*0\s*;", body))
        if pure > MAX_PURE_VIRTUALS:
            violation(f"{path}:{line}: {name}: expected at most {MAX_PURE_VIRTUALS} pure virtuals, found {pure}")
        for match in re.finditer(rf"(?<![\w:~.>]){name}\s*\(", body):
            start = match.end() - 1
            parameters = count_parameters(body[start + 1:closing(body, start, "(", ")") - 1])
            if parameters > MAX_CONSTRUCTOR_PARAMETERS:
                violation(f"{path}:{line}: {name}: expected constructors of at most {MAX_CONSTRUCTOR_PARAMETERS} "
                          f"parameters, found {parameters}")


DEFINITION = re.compile(r"^(?![ \t#}/]|using|namespace|return)(?:[^=(;]*[\s&*])?((?:\w+::)+)(~?\w+|operator[^\s\w]+)\s*\(")


def defined_classes(code):
    """Names of the classes whose methods `code` defines: outermost class of Class::Method( in the first column."""
    names = set()
    for line in code.split("\n"):
        match = DEFINITION.match(without_templates(line)) if "::" in line else None
        if match:
            names.update(match.group(1).split("::")[:-1])
    return names


def check_one_source_per_class(codes, includes):
    """Methods of one class in several .cc files."""
    declared = collections.defaultdict(set)  # Class -> files that define it.
    for path, code in codes.items():
        for name, _, _ in classes_in(code):
            declared[name].add(path)

    def reachable(path):
        seen, todo = set(), [path]
        while todo:
            current = todo.pop()
            if current not in seen:
                seen.add(current)
                todo += includes.get(current, ())
        return seen

    sources = collections.defaultdict(set)  # (class, declaring file) -> .cc files.
    for path, code in codes.items():
        if not path.endswith(".cc"):
            continue
        names = [name for name in defined_classes(code) if name in declared]
        if not names:
            continue
        visible = reachable(path)
        for name in names:
            candidates = [file for file in declared[name] if file in visible]
            if path in candidates:
                candidates = [path]
            near = [file for file in candidates if os.path.dirname(file) == os.path.dirname(path)]
            for file in near or candidates:
                sources[name, file].add(path)
    for (name, file), paths in sorted(sources.items()):
        if len(paths) > 1:
            violation(f"{file}: {name}: expected one .cc, found {', '.join(sorted(paths))}")


def find_cycles(graph):
    """Strongly connected components of more than one node, each sorted (Tarjan 1972, without recursion)."""
    index, low, on_stack, stack, cycles = {}, {}, set(), [], []
    for root in sorted(graph):
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, children = work[-1]
            for child in children:
                if child not in index:
                    index[child] = low[child] = len(index)
                    stack.append(child)
                    on_stack.add(child)
                    work.append((child, iter(sorted(graph.get(child, ())))))
                    break
                if child in on_stack:
                    low[node] = min(low[node], index[child])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    if len(component) > 1:
                        cycles.append(sorted(component))
    return sorted(cycles)


def check_cycles(includes):
    """Cycles of includes, a .h and its .cc counted as one; then of folders."""
    units, folders = collections.defaultdict(set), collections.defaultdict(set)
    for path, included in includes.items():
        unit, folder = os.path.splitext(path)[0], os.path.dirname(path)
        for other in included:
            if os.path.splitext(other)[0] != unit:
                units[unit].add(os.path.splitext(other)[0])
            if os.path.dirname(other) != folder:
                folders[folder].add(os.path.dirname(other))
    for cycle in find_cycles(units):
        violation(f"{os.path.dirname(cycle[0])}: include cycle of {', '.join(cycle)}")
    for cycle in find_cycles(folders):
        violation(f"include cycle of the folders {', '.join(cycle)}")


# What a README.md says its folder may include: from these words to the end of the sentence. A folder named stands for
# those in it; "everything" for all.
MAY_DEPEND_ON = re.compile(r"May\s+depend\s+on\s(.*?)\.(?=\s|$)", re.DOTALL)
NAMED_FOLDER = re.compile(r"(?<![\w/.])((?:common|label_party|nonlabel_party|deploy)(?:/[a-z_]+)*)(?=[/`,;. \n]|$)")
EVERYBODYS_FOLDER = "common/status"


def check_dependencies(includes):
    """Folders that include others than their README.md says, and READMEs that name folders nobody includes there."""
    used = collections.defaultdict(set)
    for path, included in includes.items():
        used[os.path.dirname(path)].update(os.path.dirname(other) for other in included)
    for folder, others in sorted(used.items()):
        readme = os.path.join(folder, "README.md")
        sentence = MAY_DEPEND_ON.search(read(readme)) if os.path.exists(readme) else None
        if folder.startswith("tests") or not sentence or "everything" in sentence.group(1):
            continue
        named = set(NAMED_FOLDER.findall(sentence.group(1))) - {EVERYBODYS_FOLDER}
        others = {other for other in others if other and other not in (folder, EVERYBODYS_FOLDER)}
        covered = {name: [other for other in others if (other + "/").startswith(name + "/")] for name in named}
        missing = others.difference(*covered.values()) if covered else others
        if missing:
            violation(f"{readme}: expected every folder that it may depend on, found none of {', '.join(sorted(missing))}")
        stale = [name for name in sorted(named) if not covered[name]]
        if stale:
            violation(f"{readme}: expected folders that are included there, found {', '.join(stale)}")


def check_listed(path):
    """A source that no CMakeLists.txt names is neither compiled nor tested."""
    folder = os.path.dirname(path)
    while True:
        lists = os.path.join(folder, "CMakeLists.txt")
        relative = os.path.relpath(path, folder or ".")
        if os.path.exists(lists) and re.search(rf"(?<![\w/.]){re.escape(relative)}(?![\w/.])", read(lists)):
            return
        if not folder:
            violation(f"{path}: expected in a CMakeLists.txt, found in none")
            return
        folder = os.path.dirname(folder)


def main(repository):
    os.chdir(repository)
    paths = find_files([folder for folder in OWN_FOLDERS if os.path.isdir(folder)], (".h", ".cc"))
    texts = {path: read(path) for path in paths}
    codes = {path: without_comments(text) for path, text in texts.items()}
    includes = {}
    for path, text in texts.items():
        found = re.findall(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', text, re.MULTILINE)
        near = [os.path.normpath(os.path.join(os.path.dirname(path), name)) for name in found]
        includes[path] = {name for name in found + near if name in texts and name != path}

    check_cycles(includes)
    check_dependencies(includes)
    check_one_source_per_class(codes, includes)
    check_one_definition(codes)
    for path in paths:
        check_classes(path, codes[path])
        locks = list(STANDARD_LOCKS.finditer(codes[path]))
        if locks and path != STANDARD_LOCKS_ALLOWED:
            line = codes[path].count("\n", 0, locks[0].start()) + 1
            violation(f"{path}:{line}: expected absl::Mutex with ABSL_GUARDED_BY, found {locks[0].group()}, "
                      f"{len(locks)} in the file")
        wall_clock = WALL_CLOCK.search(codes[path])
        if wall_clock and path.startswith(WALL_CLOCK_FOLDERS) and path not in WALL_CLOCK_ALLOWED:
            violation(f"{path}:{codes[path].count(chr(10), 0, wall_clock.start()) + 1}: expected the clock of "
                      f"common/process/steady_time.h, found {wall_clock.group()}")
        if path.endswith(".cc"):
            check_listed(path)
    return 1 if violations else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: check_sources.py REPOSITORY")
    sys.exit(main(sys.argv[1]))
