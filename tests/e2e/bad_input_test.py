"""Files that cannot be read: exit 3, a place, nothing on standard output."""

import pathlib
import tempfile
import unittest

from command import LLAMA, CommandTest


class BadInputTest(CommandTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, content, name="job.yaml"):
        path = pathlib.Path(self.folder.name) / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def refuse_file(self, content, message, name="job.yaml"):
        path = self.file(content, name)
        for arguments in (["plan", path], ["plan", path, "--json"],
                          ["price", path, "tp=8", "--json"], ["explain", path, "tp=8"]):
            run = self.refuse(*arguments, code=3, message=message)
            self.assertIn(path, run.stderr)

    def test_a_missing_file(self):
        self.refuse("plan", "/nowhere/job.yaml", code=3, message="/nowhere/job.yaml: no such file")

    def test_a_folder(self):
        self.refuse("plan", self.folder.name, code=3, message="folder")

    def test_an_empty_file(self):
        self.refuse_file("", "empty")
        self.refuse_file("\n  \n", "empty")

    def test_a_binary_file(self):
        self.refuse_file(b"\x7fELF\x00\x01\x02", "binary")

    def test_a_huge_file(self):
        self.refuse_file("# " + "x" * (10 << 20), "larger than")

    def test_truncated_documents(self):
        self.refuse_file('{"model": {"preset": "llama3-70b"', ":1:", "job.json")
        self.refuse_file("model: {preset: llama3-70b\n", ":")

    def test_a_document_that_is_no_map(self):
        self.refuse_file("just a line\n", ":1:1: ")
        self.refuse_file("- a\n- b\n", ":1:1: ")

    def test_a_key_given_twice(self):
        text = pathlib.Path(LLAMA).read_text(encoding="utf-8")
        self.refuse_file(text + "model: {preset: llama3-70b}\n", "model")

    def test_an_unknown_key(self):
        text = pathlib.Path(LLAMA).read_text(encoding="utf-8")
        self.refuse_file(text + "serch: {}\n", "serch")

    def test_standard_input_that_is_empty(self):
        self.refuse("plan", "-", code=3, message="<stdin>", stdin="")

    def test_an_unknown_preset(self):
        self.refuse("devices", "h999", code=3, message="h999")


if __name__ == "__main__":
    unittest.main()
