"""What a document holds: fenced blocks, inline code, links."""
import dataclasses
import pathlib
import re

# What a fence may say about its block. Only `sh` blocks are run; `output` is what the `sh` block before it prints.
KNOWN_KINDS = {"sh", "output", "text", "textproto", "csv", "json", "sql", "python", "xml"}
PROGRAMS = ("splitveil", "label_party", "nonlabel_party", "centralized_baseline")
SOURCE_FOLDERS = ("proto", "common", "label_party", "nonlabel_party", "deploy", "tests")
_COMMAND = re.compile(r"(\$ )?(build/bin/)?(%s|deploy/[a-z_/]+\.sh)( |$)" % "|".join(PROGRAMS))


@dataclasses.dataclass
class Block:
    line: int  # Of the opening fence, from 1.
    kind: str
    words: dict  # `sh exit=0,10 on=label_party background` after the kind: name -> value, "" for none.
    text: str


def parse(path):
    """Returns (blocks, prose lines as (number, text)). Raises ValueError, naming the line, for a fence that never ends."""
    blocks, prose, opened = [], [], None
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        if line.startswith("```") and opened is None:
            kind, *words = line[3:].split() or [""]
            opened = Block(number, kind, dict((word + "=").split("=")[:2] for word in words), "")
        elif line.startswith("```"):
            blocks.append(opened)
            opened = None
        elif opened is not None:
            opened.text += line + "\n"
        else:
            prose.append((number, line))
    if opened is not None:
        raise ValueError(f"{path}:{opened.line}: the fence never ends")
    return blocks, prose


def check_fences(path, blocks):
    """Mistakes that would let a command go by without being run."""
    for block in blocks:
        if block.kind not in KNOWN_KINDS:
            known = ", ".join(sorted(KNOWN_KINDS))
            yield f"{path}:{block.line}: fence: expected one of {known}, found \"{block.kind}\""
        if block.kind != "sh" and block.kind != "output":
            for offset, line in enumerate(block.text.splitlines(), 1):
                if _COMMAND.match(line):
                    yield f"{path}:{block.line + offset}: a command in a block that is not run: {line}"


def inline_commands(prose):
    """(line, words) of every program with flags that the prose quotes."""
    text = "\n".join(line for _, line in prose)
    numbers = [number for number, _ in prose]
    for span in re.finditer(r"`([^`]+)`", text):
        words = span.group(1).split()
        words[0] = words[0].removeprefix("build/bin/")
        if words[0] in PROGRAMS and any(word.startswith("--") for word in words):
            yield numbers[text.count("\n", 0, span.start())], words


def _slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def check_links(path, prose, root):
    """Relative links whose file or heading is not there."""
    for number, line in prose:
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (pathlib.Path(path).parent / name).resolve() if name else pathlib.Path(path)
            if not file.exists() or root not in [file, *file.parents]:
                yield f"{path}:{number}: link: no file {target}"
            elif anchor and file.suffix == ".md":
                headings = [text.lstrip("#") for _, text in parse(file)[1] if text.startswith("#")]
                if anchor not in map(_slug, headings):
                    yield f"{path}:{number}: link: no heading {target}"


def check_file_names(path, prose, root):
    """Quoted names of sources that are nowhere in the tree: `trainer.cc`, `session/trainer.cc`."""
    files = ["/" + str(file.relative_to(root)) for folder in SOURCE_FOLDERS for file in (root / folder).rglob("*")]
    for number, line in prose:
        for name in re.findall(r"`([a-z][\w./]*\.(?:h|cc|proto|py|sh))`", line):
            if not any(file.endswith("/" + name) for file in files):
                yield f"{path}:{number}: no file {name}"


def _normal(line):
    """Without what differs from run to run: ids, digests, numbers, widths of columns."""
    line = re.sub(r"\b[0-9a-f]{64}\b|\b(?=[0-9]*[a-f])[0-9a-f]{16}\b|-[0-9a-f]{8}\b", "#", line)
    line = re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "#", line)
    return re.sub(r"\s+", " ", line).strip()


def missing_output(expected, found):
    """The first line of `expected` that no line of `found` is like; None where all are there. `...` is any text."""
    lines = [_normal(line) for line in found.splitlines()]
    for line in filter(str.strip, expected.splitlines()):
        pattern = ".*".join(re.escape(_normal(part)) for part in re.split(r"\.\.\.", line))
        if not any(re.fullmatch(pattern.replace(".*", r" ?.*"), candidate) for candidate in lines):
            return line
    return None
