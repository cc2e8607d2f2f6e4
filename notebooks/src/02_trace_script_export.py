# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 02 · Trace, script, export
#
# WRITE: the lesson.

# %%
from oplab import lesson

lab = lesson("02_trace_script_export")

# %% [markdown]
# ## Exercises

# %% [markdown]
# **`predict`** — WRITE: what to do.

# %%
lab.check("predict")

# %% [markdown]
# **`control_flow`** — WRITE: what to do.

# %%
lab.check("control_flow")

# %% [markdown]
# **`frozen`** — WRITE: what to do.

# %%
lab.check("frozen")
