"""A stand-in for an OpenAI-style client, so that the examples run without a network and a key. Put `from openai import OpenAI` in its place."""

from types import SimpleNamespace


class OpenAI:
    def __init__(self):
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def _create(self, *, model, messages, temperature=1.0, max_tokens=None, seed=None):
        prompt, question = messages[0]["content"], messages[-1]["content"]
        text = f"About {question.rstrip('?').lower()}: it depends."
        if "example" in prompt:
            text += f" For example, on {len(question)} things."
        message = SimpleNamespace(role="assistant", content=text)
        return SimpleNamespace(id="chatcmpl-1", model=model, choices=[SimpleNamespace(index=0, message=message, finish_reason="stop")],
                               usage=SimpleNamespace(prompt_tokens=len(prompt.split()), completion_tokens=len(text.split())))
