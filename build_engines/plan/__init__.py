"""What a model needs on a kind of GPU or CPU, by arithmetic alone: no torch, no GPU, no network but for a hub id.

devices.py        gpus.json, cpus.json: figures with their source and date
model_numbers.py  config.json, or numbers, → ModelNumbers; parts.py: its matrices and parameters
formats.py        quantisations: bits, scales, the GPU they need, the library's names
memory.py         bytes of one GPU: weights, activations, reserve, KV cache
parallel.py       legal tp x pp, ranked with reasons
ceilings.py       prefill and decode bounds, price, offload
report.py, text.py, picture.py  all of it as a record, a table, a picture
"""
