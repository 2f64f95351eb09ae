"""chat_service.py, instrumented with the wrapper: three lines differ."""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import colophon
from model import OpenAI

PROMPT = os.environ.get("PROMPT", "Answer in one sentence.")
ledger = colophon.Ledger(labels={"service": "chat", "prompt": os.environ.get("PROMPT_VERSION", "1")})
client = colophon.wrap(OpenAI(), ledger)


def answer(question):
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
    response = client.chat.completions.create(model="gpt-4o", messages=messages, temperature=0.2, max_tokens=200, seed=7)
    return response.choices[0].message.content


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        question = self.rfile.read(int(self.headers["Content-Length"])).decode()
        text = answer(question).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Handler)
    print("listening on port", server.server_port, flush=True)
    server.serve_forever()
