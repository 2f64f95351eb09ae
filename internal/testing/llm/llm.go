// Package llm provides a small server with the APIs of Ollama and OpenAI, for tests of code that
// sends prompts.
package llm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// Model and Digest are the name and the digest of the only model that the server has.
const (
	Model  = "tiny:1b"
	Digest = "8ccf136fdd5298f3ffe2d69862750ea7fb56555fa4d5b18c04e3fa4d82ee09d7"
)

// Server answers a prompt with text that depends only on the prompt and the seed: "Echo 7: prompt".
// Its fields can be changed between requests.
type Server struct {
	*httptest.Server
	Key        string // required API key; empty if none is required
	IgnoreSeed bool   // answers differ even for the same seed
	// Handler, if not nil, handles generation requests instead of the server.
	Handler http.HandlerFunc

	mutex    sync.Mutex
	received []ReceivedRequest
}

type ReceivedRequest struct {
	Path, Authorization string
	Body                string
}

// New starts a server. The caller must close it.
func New() *Server {
	s := new(Server)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/tags", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"models": []any{map[string]any{"name": Model, "model": Model, "digest": Digest}}})
	})
	mux.HandleFunc("POST /api/generate", s.generate(ollamaText, func(text string) any {
		return map[string]any{"model": Model, "response": text, "done": true, "done_reason": "stop", "context": []int{1, 2, 3}, "prompt_eval_count": 5, "eval_count": 3, "total_duration": 4935886791}
	}))
	mux.HandleFunc("POST /api/chat", s.generate(ollamaChat, func(text string) any {
		return map[string]any{"model": Model, "message": map[string]any{"role": "assistant", "content": text}, "done": true, "prompt_eval_count": 5, "eval_count": 3}
	}))
	mux.HandleFunc("POST /v1/chat/completions", s.generate(openAI, func(text string) any {
		return map[string]any{"id": "chatcmpl-1", "object": "chat.completion", "model": Model, "system_fingerprint": "fp_1",
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": text}}},
			"usage":   map[string]any{"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8, "completion_tokens_details": map[string]any{"reasoning_tokens": 0}}}
	}))
	s.Server = httptest.NewServer(mux)
	return s
}

// Requests returns the generation requests that the server received.
func (s *Server) Requests() []ReceivedRequest {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]ReceivedRequest(nil), s.received...)
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// options holds the settings that have the same names in both APIs.
type options struct {
	Temperature *float64 `json:"temperature"`
	Seed        *int64   `json:"seed"`
	TopP        *float64 `json:"top_p"`
	Stop        []string `json:"stop"`
}

// generationRequest is a decoded generation request.
type generationRequest struct {
	model, prompt string
	seed          *int64
	stream        bool
}

func ollamaText(body io.Reader) (generationRequest, error) {
	var r struct {
		Model, System, Prompt string
		Stream                *bool
		Options               struct {
			options
			NumPredict int `json:"num_predict"`
		}
	}
	err := strict(body, &r)
	return generationRequest{r.Model, r.Prompt, r.Options.Seed, r.Stream == nil || *r.Stream}, err
}

func ollamaChat(body io.Reader) (generationRequest, error) {
	var r struct {
		Model    string
		Messages []message
		Stream   *bool
		Options  struct {
			options
			NumPredict int `json:"num_predict"`
			NumCtx     int `json:"num_ctx"`
		}
	}
	err := strict(body, &r)
	return generationRequest{r.Model, last(r.Messages), r.Options.Seed, r.Stream == nil || *r.Stream}, err
}

func openAI(body io.Reader) (generationRequest, error) {
	var r struct {
		Model    string
		Messages []message
		Stream   bool
		options
		MaxTokens int `json:"max_tokens"`
	}
	err := strict(body, &r)
	return generationRequest{r.Model, last(r.Messages), r.Seed, r.Stream}, err
}

// strict decodes the JSON in body into request. It returns an error if body has a member that the
// API does not define.
func strict(body io.Reader, request any) error {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	return d.Decode(request)
}

func last(messages []message) string {
	if len(messages) == 0 {
		return ""
	}
	return messages[len(messages)-1].Content
}

// generate returns a handler for generation requests. read decodes a request, and answer returns the response
// body for the generated text.
func (s *Server) generate(read func(io.Reader) (generationRequest, error), answer func(text string) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mutex.Lock()
		s.received = append(s.received, ReceivedRequest{r.URL.Path, r.Header.Get("Authorization"), string(body)})
		number := len(s.received)
		s.mutex.Unlock()
		if s.Handler != nil {
			s.Handler(w, r)
			return
		}
		if s.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.Key {
			reply(w, http.StatusUnauthorized, problem(r, "invalid api key"))
			return
		}
		a, err := read(strings.NewReader(string(body)))
		switch {
		case err != nil || a.stream:
			reply(w, http.StatusBadRequest, problem(r, fmt.Sprintf("bad request: %v", err)))
		case a.model != Model:
			reply(w, http.StatusNotFound, problem(r, fmt.Sprintf("model '%s' not found", a.model)))
		case s.IgnoreSeed || a.seed == nil:
			reply(w, http.StatusOK, answer(fmt.Sprintf("Echo, time %d: %s", number, a.prompt)))
		default:
			reply(w, http.StatusOK, answer(fmt.Sprintf("Echo %d: %s", *a.seed, a.prompt)))
		}
	}
}

// problem returns an error body in the format of the API to which the request's path belongs.
func problem(r *http.Request, text string) any {
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		return map[string]any{"error": map[string]any{"message": text, "type": "invalid_request_error", "code": nil}}
	}
	return map[string]any{"error": text}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
