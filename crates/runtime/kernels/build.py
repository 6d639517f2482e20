"""Compiles reduce.cu into reduce.ptx with NVRTC: `python build.py LIBNVRTC`, e.g. of the package nvidia-cuda-nvrtc.

No compiler of CUDA is needed, nor a GPU. The text is checked in, so that the library is built without either.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

HERE = Path(__file__).parent
OPTIONS = [b"--gpu-architecture=compute_75", b"--fmad=false", b"--std=c++17"]


def main() -> int:
    """Compiles, and says what is wrong."""
    library = ctypes.CDLL(sys.argv[1])
    program = ctypes.c_void_p()
    source = (HERE / "reduce.cu").read_bytes()
    check(library.nvrtcCreateProgram(ctypes.byref(program), source, b"reduce.cu", 0, None, None))
    options = (ctypes.c_char_p * len(OPTIONS))(*OPTIONS)
    result = library.nvrtcCompileProgram(program, len(OPTIONS), options)
    size = ctypes.c_size_t()
    check(library.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
    log = ctypes.create_string_buffer(size.value)
    check(library.nvrtcGetProgramLog(program, log))
    if log.value.strip():
        print(log.value.decode(), file=sys.stderr)
    check(result)
    check(library.nvrtcGetPTXSize(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    check(library.nvrtcGetPTX(program, text))
    (HERE / "reduce.ptx").write_bytes(text.value)
    return 0


def check(result: int) -> None:
    """Ends the program if a call of NVRTC has failed."""
    if result:
        sys.exit(f"NVRTC: result {result}")


if __name__ == "__main__":
    sys.exit(main())
