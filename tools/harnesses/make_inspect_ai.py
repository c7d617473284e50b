"""A log of Inspect, with two epochs and a model that answers from a list."""
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import exact


def reply(text):
    out = ModelOutput.from_content("mockllm/model", text)
    # Without usage Inspect counts tokens with tables that it would fetch.
    out.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return out


model = get_model("mockllm/model", custom_outputs=[reply(t) for t in ("4", "7", "4", "6")])
samples = [Sample(id="a", input="2+2", target="4"), Sample(id="b", input="3+3", target="6")]
log = eval(Task(dataset=samples, scorer=exact(), epochs=2, name="arith"), model=model, log_dir="out", max_samples=1, display="none")[0]
print("exact/mean", log.results.scores[0].metrics["mean"].value)
