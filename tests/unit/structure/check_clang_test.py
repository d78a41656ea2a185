#!/usr/bin/env python3
"""deploy/check_clang.py with a stand-in for clang-tidy: what is joined, where findings are reported, what is remembered.

The stand-in finds the word BAD, and like a compiler refuses a second line that begins with "int main".
"""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "check_clang.py"
CLANG_TIDY = """#!/usr/bin/env python3
import sys
if len(sys.argv) == 2:
    print("version 1, bugprone-bad")
    sys.exit()
path = next(word for word in sys.argv[1:] if word.endswith(".cc"))
open(ROOT + "/calls", "a").write("called\\n")
found, mains = [], 0
for number, line in enumerate(open(path), 1):
    mains += line.startswith("int main")
    if mains > 1 and line.startswith("int main"):
        found.append(f"{path}:{number}:1: error: redefinition of main [clang-diagnostic-error]")
    if "BAD" in line:
        found.append(f"{path}:{number}:5: error: bad [bugprone-bad]\\n{line}")
    if "header.h" in line and "BAD" in open(ROOT + "/common/header.h").read():
        found.append(ROOT + "/common/header.h:1:1: error: bad [bugprone-bad]")
print("\\n".join(found))
sys.exit(1 if found else 0)
"""


class CheckClangTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name).resolve()
        for folder in ("bin", "build", "common"):
            (self.root / folder).mkdir()
        self.program("clang-tidy", CLANG_TIDY.replace("ROOT", repr(str(self.root))))
        self.program("ccache", f"#!/bin/sh\necho {self.root}/ccache\n")
        self.write("common/header.h", "struct Header {};\n")
        spec = importlib.util.spec_from_file_location("check_clang", SCRIPT)
        self.module = importlib.util.module_from_spec(spec)
        sys.dont_write_bytecode = True
        spec.loader.exec_module(self.module)
        self.module.ROOT = self.root

    def program(self, name, text):
        (self.root / "bin" / name).write_text(text)
        (self.root / "bin" / name).chmod(0o755)

    def write(self, path, text):
        (self.root / path).write_text(text)

    def check(self, *arguments):
        """(exit code, printed, calls of the tool)"""
        database = [{"directory": str(self.root), "file": str(path), "command": f"/usr/bin/c++ -O3 -o x.o -c {path}"}
                    for path in sorted(self.root.glob("common/*.cc"))]
        (self.root / "build" / "compile_commands.json").write_text(json.dumps(database))
        (self.root / "calls").write_text("")
        printed = io.StringIO()
        path = f"{self.root}/bin:{os.environ['PATH']}"
        with mock.patch.object(sys, "argv", ["check_clang.py", "tidy", *arguments]), \
                mock.patch.object(os, "cpu_count", lambda: 1), mock.patch.dict(os.environ, {"PATH": path}), \
                contextlib.redirect_stdout(printed):
            code = self.module.main()
        return code, printed.getvalue(), len((self.root / "calls").read_text().split())

    def test_sources_are_joined_and_remembered(self):
        self.write("common/a.cc", "int a;\n")
        self.write("common/b.cc", "int b;\n")
        self.assertEqual(self.check(), (0, "tidy: 2 sources: 0 known to be clean, 2 found clean, 0 with findings, "
                                           "0 left for lack of time\n", 1))
        self.assertEqual(self.check(), (0, "tidy: 2 sources: 2 known to be clean, 0 found clean, 0 with findings, "
                                           "0 left for lack of time\n", 0))

    def test_a_finding_is_reported_where_it_lies(self):
        self.write("common/a.cc", "int a;\n\n\n")
        self.write("common/b.cc", "\nint BAD;\n")
        self.write("common/c.cc", "int c;\n")
        code, printed, calls = self.check()
        self.assertEqual((code, calls), (1, 1))
        self.assertIn("common/b.cc:2:5: error: bad [bugprone-bad]\n", printed)
        self.assertIn("2 found clean, 1 with findings", printed)
        self.assertIn("2 known to be clean, 0 found clean, 1 with findings", self.check()[1])

    def test_a_finding_in_a_header_leaves_none_of_its_sources_clean(self):
        self.write("common/a.cc", '#include "common/header.h"\n')
        self.write("common/b.cc", '#include "common/header.h"\nint b;\n')
        self.write("common/header.h", "struct BAD {};\n")
        for _ in range(2):
            code, printed, _ = self.check()
            self.assertEqual(code, 1)
            self.assertEqual(printed.count("common/header.h:1:1: error"), 1)
            self.assertIn("0 known to be clean, 0 found clean, 2 with findings", printed)

    def test_an_edited_header_is_looked_at_again_where_it_is_seen(self):
        self.write("common/a.cc", '#include "common/header.h"\n')
        self.write("common/b.cc", "int b;\n")
        self.check()
        self.write("common/header.h", "struct Header { int more; };\n")
        self.assertIn("1 known to be clean, 1 found clean", self.check()[1])

    def test_edited_settings_count_in_their_folder(self):
        self.write("common/a.cc", "int a;\n")
        self.check()
        self.write("common/.clang-tidy", "Checks: bugprone-bad")
        self.assertIn("0 known to be clean, 1 found clean", self.check()[1])

    def test_sources_that_declare_the_same_are_not_joined(self):
        for first, second in (("int Same() { return 1; }", "int Same() { return 2; }"), ("struct Same {", "class Same {"),
                              ("constexpr int kSame = 1;", "constexpr int kSame = 2;"), ("using Same = int;", "enum Same {")):
            self.write("common/a.cc", f"namespace {{\n\n{first}\n")
            self.write("common/b.cc", f"namespace {{\n\n{second}\n")
            self.assertEqual(self.check()[2], 2, first)

    def test_a_function_that_a_header_declares_is_no_clash(self):
        self.write("common/header.h", "int Twice(int number);\nclass Later;\n")
        self.write("common/a.cc", '#include "common/header.h"\nint Twice(int number) { return 2 * number; }\n')
        self.write("common/b.cc", '#include "common/header.h"\nint b = Twice(1);\n')
        self.assertEqual(self.check()[2], 1)

    def test_what_does_not_compile_beside_others_is_looked_at_alone(self):
        self.write("common/a.cc", "int main\n(){}\n")  # No name that the script would see.
        self.write("common/b.cc", "int main\n(){}\n")
        self.write("common/c.cc", "int c;\n")
        code, printed, calls = self.check()
        self.assertEqual((code, calls), (0, 3))  # Together; b alone; a with c.
        self.assertIn("3 found clean, 0 with findings", printed)

    def test_what_does_not_compile_alone_fails(self):
        self.write("common/a.cc", "int main\nint main\n")
        code, printed, _ = self.check()
        self.assertEqual(code, 1)
        self.assertIn("common/a.cc:2:1: error: redefinition", printed)

    def test_what_time_does_not_allow_is_counted_and_is_no_failure(self):
        self.write("common/a.cc", "int a;\n")
        code, printed, calls = self.check("--seconds=-1")
        self.assertEqual((code, calls), (0, 0))
        self.assertIn("1 left for lack of time", printed)


if __name__ == "__main__":
    unittest.main()
