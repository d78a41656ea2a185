"""Reads tables as their schemas say, with pandas: python3 read_with_pandas.py TABLES.

A line of TABLES is a JSON object: path, separator, missing, and columns with name, kind, decimal, thousands, strip and
missing. Beside each table it writes PATH.pandas: a line of JSON for each column that is no IGNORE, with its cells:
numbers or null if missing, texts or "" if missing.
"""

import csv
import io
import json
import sys

import pandas


def texts_of(table):
    return pandas.read_csv(table["path"], sep=table["separator"], dtype=str, keep_default_na=False, na_filter=False,
                           encoding="utf-8-sig")


def numbers_of(texts, column, missing):
    """The column's numbers, by pandas' own decimal and thousands."""
    texts = texts.where(~texts.isin(missing), "")
    for unit in column["strip"]:
        texts = texts.str.replace(unit, "", regex=False)
    texts = texts.str.strip().str.replace("\u2212", "-", regex=False).str.replace(r"^([+-])\s+", r"\1", regex=True)
    thousands = column["thousands"] or None
    if thousands == " ":  # Any blank.
        texts, thousands = texts.str.replace(r"\s", "", regex=True), None
    column_text = texts.to_csv(index=False, header=["x"], quoting=csv.QUOTE_ALL)
    numbers = pandas.read_csv(io.StringIO(column_text), decimal=column["decimal"], thousands=thousands,
                              na_values=[""], keep_default_na=False, skip_blank_lines=False,
                              float_precision="round_trip")["x"]
    return numbers.astype(float)


for line in open(sys.argv[1], encoding="utf-8"):
    table = json.loads(line)
    frame = texts_of(table)
    with open(table["path"] + ".pandas", "w", encoding="utf-8") as out:
        for column in table["columns"]:
            missing = set(table["missing"]) | set(column["missing"]) | {""}
            cells = frame[column["name"]]
            if column["kind"] == "NUMERIC":
                numbers = numbers_of(cells, column, missing)
                unknown = {float(text) for text in column["missing"] if text.lstrip("-").isdigit()}
                values = [None if number != number or number in unknown else number for number in numbers]
            else:
                values = list(cells.where(~cells.isin(missing), ""))
            if column["kind"] != "IGNORE":
                json.dump(values, out)
                out.write("\n")
