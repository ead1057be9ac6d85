"""Writes chats.parquet: three conversations, as Hugging Face datasets stores them. Made with pyarrow: python3 rows.py [CODEC FILE]"""
import sys, pyarrow as pa, pyarrow.parquet as pq

codec, path = sys.argv[1:3] if len(sys.argv) > 2 else ("zstd", "chats.parquet")
turns = lambda *texts: [{"role": ["user", "assistant"][i % 2], "content": t} for i, t in enumerate(texts)]
table = pa.table({"messages": [turns("1+1=", "2"), turns("a", "b", "c", "d"), turns("é\n", "ü")], "source": ["x", None, "y"]})
pq.write_table(table, path, compression=codec)
