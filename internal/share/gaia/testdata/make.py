"""Writes the Parquet files of this folder, in the shape in which GAIA is published:
metadata.parquet with all levels and the annotator's notes as a struct, and one file for
each level. The tasks are ours. Needs pyarrow; 21.0.0 wrote what is here."""
import pathlib
import pyarrow as pa
import pyarrow.parquet as pq

here = pathlib.Path(__file__).parent
rows = [
    {"task_id": "%08x-0000-4000-8000-000000000000" % n, "Question": "Which wind was logged on day %d?" % n, "Level": str(level),
     "Final answer": "northwest-%d" % (300 + n), "file_name": name, "file_path": "2023/validation/" + name if name else "",
     "Annotator Metadata": {"Steps": "1. Look it up.", "Number of steps": "1", "How long did this take?": "1 minute", "Tools": "none", "Number of tools": "0"}}
    for n, level, name in [(1, 1, ""), (2, 1, "table.csv"), (3, 2, ""), (4, 3, "")]]
pq.write_table(pa.Table.from_pylist(rows), here / "metadata.parquet", compression="snappy")
for level in "123":
    pq.write_table(pa.Table.from_pylist([r for r in rows if r["Level"] == level]), here / f"metadata.level{level}.parquet", compression="zstd")
