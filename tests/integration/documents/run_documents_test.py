"""run_documents.py finds every kind of mistake that is planted in a document."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import stand_ins

RUNNER = pathlib.Path(__file__).with_name("run_documents.py")
PROGRAM = "#!/bin/bash\ncase $* in *--help*) echo '--known TEXT' ;; *) echo \"$0 ran 17 times: $*\" ;; esac\n"


class RunDocumentsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name) / "root"
        self.programs = pathlib.Path(self.folder.name) / "programs"
        for script in stand_ins.SCRIPTS:
            self._write(self.root / script, "#!/bin/bash\n# --data=FILE\n")
        for program in ("splitveil", "label_party", "nonlabel_party", "centralized_baseline"):
            self._write(self.programs / program, PROGRAM)

    @staticmethod
    def _write(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def _run(self, text):
        (self.root / "D.md").write_text(text)
        return subprocess.run([sys.executable, RUNNER, self.root, self.programs, "D.md"], capture_output=True, text=True,
                              timeout=60, check=False)

    def assert_passes(self, text):
        done = self._run(text)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def assert_fails(self, text, message):
        done = self._run(text)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(message, done.stderr)

    def test_a_command_that_works_passes_and_one_that_fails_is_named_with_its_line(self):
        self.assert_passes("# D\n```sh\nsplitveil report --known=x\n```\n")
        self.assert_fails("# D\n```sh\ntrue\nfalse\n```\n", "D.md:2: expected exit 0, found 1")

    def test_a_command_in_the_middle_or_in_a_pipe_cannot_hide_its_failure(self):
        self.assert_fails("```sh\nfalse | true\ntrue\n```\n", "expected exit 0, found 1")

    def test_an_unset_variable_fails(self):
        self.assert_fails("```sh\necho $nowhere\n```\n", "nowhere: unbound variable")

    def test_the_exit_code_must_be_the_one_that_is_told(self):
        self.assert_passes("```sh exit=0,10\nexit 10\n```\n")
        self.assert_fails("```sh exit=10\ntrue\n```\n", "expected exit 10, found 0")

    def test_output_may_differ_in_numbers_and_ids_alone(self):
        self.assert_passes("```sh\necho run-1a2b3c4d: AUC 0.71, loss -1e-3\n```\n"
                           "```output\nrun-99999999: AUC 0.8, loss 4\n```\n")
        self.assert_fails("```sh\necho AUC 0.71\n```\n```output\nloss 0.71\n```\n", "does not print this line: loss 0.71")

    def test_three_dots_are_any_text(self):
        self.assert_passes("```sh\necho a b c d\n```\n```output\na ... d\n... c d\na b ...\n```\n")
        self.assert_fails("```sh\necho a b c d\n```\n```output\nb ...\n```\n", "does not print this line")

    def test_blocks_go_on_in_the_folder_where_the_one_before_ended(self):
        self.assert_passes("```sh\nmkdir inner && cd inner && touch here\n```\n```sh\nls here\n```\n")

    def test_machines_have_folders_of_their_own_and_reach_each_other_by_scp(self):
        self.assert_passes("```sh on=label_party\nmkdir run && cd run && touch a\n"
                           "scp a nonlabel-party.example.com:run/\n```\n```sh on=nonlabel_party\nls run/a; [ ! -e a ]\n```\n")
        self.assert_fails("```sh\ntouch a\nscp a elsewhere:\n```\n", "scp: expected")

    def test_a_background_block_runs_beside_the_next_and_must_end_well(self):
        self.assert_passes("```sh background\nwhile [ ! -e go ]; do sleep 0.1; done; echo gone\n```\n```output\ngone\n```\n"
                           "```sh\ntouch go\n```\n")
        self.assert_fails("```sh background\nexit 3\n```\n", "expected exit 0, found 3")

    def test_commands_that_are_not_run_are_listed_and_their_flags_checked(self):
        done = self.assert_passes("```sh\ndeploy/build.sh --data=x\ndocker run\n```\n")
        for line in ("deploy/build.sh --data=x: compiles", "docker run: needs"):
            self.assertIn(line, done.stdout)
        self.assert_fails("```sh\ndeploy/build.sh --wrong\n```\n", "unknown flag --wrong")

    def test_what_is_built_must_be_a_program(self):
        self.assert_passes("```sh\ndeploy/build.sh label_party splitveil\n```\n")
        self.assert_fails("```sh\ndeploy/build.sh label_party nowhere\n```\n", "no program nowhere")

    def test_what_is_installed_for_everybody_goes_into_the_copy(self):
        done = self.assert_passes("```sh\necho a >a\nsudo install a /usr/local/splitveil_test\ncat root/usr/local/splitveil_test/a\n"
                                  "```\n```output\na\n```\n")
        self.assertIn("sudo install a /usr/local/splitveil_test: run, into", done.stdout)
        self.assertFalse(pathlib.Path("/usr/local/splitveil_test").exists())
        self.assert_fails("```sh\nsudo install nowhere /usr/local/splitveil_test\n```\n", "expected exit 0, found 1")

    def test_an_example_that_makes_its_data_is_run_and_others_are_validated(self):
        self._write(self.root / "deploy/examples/train.sh", "#!/bin/bash\necho trained $1\n")
        self._write(self.root / "deploy/examples/regression/sweep.textproto", "seeds: [1, 2, 3]\n")
        done = self.assert_passes("```sh\ndeploy/examples/train.sh regression\ncat deploy/examples/regression/sweep.textproto\n```\n"
                                  "```output\ntrained regression\nseeds: [1]\n```\n"
                                  "```sh\ndeploy/examples/train.sh adult FILE\n```\n```output\n... ran 17 times: validate ...\n```\n")
        self.assertIn("deploy/examples/train.sh adult FILE: trains for minutes", done.stdout)

    def test_a_command_cannot_go_by_in_a_block_that_is_not_run(self):
        self.assert_fails("```\nsplitveil report\n```\n", 'found ""')
        self.assert_fails("```text\nsplitveil report\n```\n", "D.md:2: a command in a block that is not run")
        self.assert_fails("```text\n$ deploy/demo.sh --data=x\n```\n", "a command in a block that is not run")
        self.assert_fails("```sh\ntrue\n", "the fence never ends")

    def test_quoted_commands_must_have_flags_that_exist(self):
        self.assert_passes("Say `splitveil report --known=x` or `label_party --help`.\n")
        self.assert_fails("Say\n`splitveil report --wrong=x`.\n", "D.md:2: splitveil report --wrong=x: unknown flag --wrong")

    def test_links_must_lead_somewhere(self):
        self.assert_passes("# One, two\n[a](#one-two) [b](deploy/build.sh) [c](https://nowhere.example)\n")
        self.assert_fails("[a](nowhere.md)\n", "no file nowhere.md")
        self.assert_fails("# One\n[a](#two)\n", "no heading #two")
        self.assert_fails("[a](../outside.md)\n", "no file ../outside.md")

    def test_quoted_file_names_must_exist(self):
        self.assert_passes("`build.sh` and `deploy/build.sh`, not `NAME.txt`\n")
        self.assert_fails("`deploy/nowhere.sh`\n", "D.md:1: no file deploy/nowhere.sh")
        self.assert_fails("`nowhere.h`\n", "no file nowhere.h")


if __name__ == "__main__":
    unittest.main()
