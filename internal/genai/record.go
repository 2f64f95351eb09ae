package genai

import (
	"bytes"
	"crypto/sha256"
	"strconv"
	"time"
	"unicode/utf8"

	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
)

// digest returns a digest of the model, the payload, the system prompt, and the output.
func (g *generation) digest() [sha256.Size]byte {
	return digestOf([]byte(g.model), g.payload, g.system, g.output)
}

// digestOf returns a digest of parts. A nil part and an empty part result in different digests.
func digestOf(parts ...[]byte) [sha256.Size]byte {
	h := sha256.New()
	for _, part := range parts {
		size := -1
		if part != nil {
			size = len(part)
		}
		h.Write(append(strconv.AppendInt(nil, int64(size), 10), ':'))
		h.Write(part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// record returns the IPC record as JSON. Lone surrogates are replaced with U+FFFD.
func (g *generation) record(r *Reader) []byte {
	s := &r.source
	w := pyjson.Builder{Buf: make([]byte, 0, len(g.payload)+len(g.system)+len(g.output)+1024)}
	w.BeginSortedObject()
	if g.answeringModel != "" {
		w.BeginMember("environment")
		w.BeginSortedObject()
		w.AddText("model_digest", []byte(g.answeringModel))
		w.EndObject()
	}
	r.appendLabels(&w)
	rawText(&w, "max_tokens", g.maxTokens)
	w.AddText("model", []byte(g.model))
	w.AddText("output", g.output)
	w.AddRaw("payload", g.payload)
	if id := s.runID(); id != "" {
		w.AddText("run_id", []byte(id))
	}
	rawText(&w, "seed", g.seed)
	w.AddText("system_prompt", g.system)
	rawText(&w, "temperature", g.temperature)
	if s.start != 0 {
		at := time.Unix(int64(s.start/1e9), int64(s.start%1e9)).UTC()
		w.AddText("timestamp", at.AppendFormat(nil, moment.Layout))
	}
	s.appendUsage(&w)
	w.EndObject()
	if !utf8.Valid(w.Buf) { // JSON in an attribute can contain lone surrogates, which not all fields accept
		return bytes.ToValidUTF8(w.Buf, []byte("\uFFFD"))
	}
	return w.Buf
}

func rawText(w *pyjson.Builder, name, token string) {
	if token != "" {
		w.AddRaw(name, []byte(token))
	}
}

// appendUsage writes the token counts and the duration.
func (s *source) appendUsage(w *pyjson.Builder) {
	begun := false
	add := func(name, token string) {
		if token == "" {
			return
		}
		if !begun {
			w.BeginMember("usage")
			w.BeginObject()
			begun = true
		}
		w.AddRaw(name, []byte(token))
	}
	for _, c := range counts {
		add(c.member, s.integer(true, c.names...))
	}
	if s.end > s.start && s.start > 0 {
		add("duration_ms", strconv.FormatUint((s.end-s.start)/1e6, 10))
	}
	if begun {
		w.EndObject()
	}
}

// appendLabels writes as many labels as the limits allow, starting with the most important ones.
func (r *Reader) appendLabels(w *pyjson.Builder) {
	s := &r.source
	left := r.limits.MaxLabels
	begun := false
	add := func(name string, value string) {
		if value == "" || left <= 0 || len(name) > r.limits.MaxValueBytes {
			return
		}
		if !begun {
			w.BeginMember("labels")
			w.BeginObject()
			begun = true
		}
		left--
		w.AddText(name, []byte(r.fit(value)))
	}
	if s.trace != nil {
		add("trace_id", hexText(s.trace))
	}
	if s.span != nil {
		add("span_id", hexText(s.span))
	}
	add(resourceLabels[0].member, r.resource.text(resourceLabels[0].names...))
	for _, l := range labels {
		value := s.text(l.names...)
		if l.member == "error" && value == "" && s.failed {
			if value = s.exception; value == "" {
				value = "error"
			}
		}
		add(l.member, value)
	}
	for _, l := range resourceLabels[1:] {
		add(l.member, r.resource.text(l.names...))
	}
	if s.parent != nil {
		add("parent_span_id", hexText(s.parent))
	}
	if begun {
		w.EndObject()
	}
}

// fit shortens a label's value if it is too long. The shortened value ends with a digest, so that
// values with the same beginning remain distinct.
func (r *Reader) fit(value string) string { return shorten(value, r.limits.MaxValueBytes) }

// maxName is the maximum length of a model's name in a record, in bytes.
const maxName = 1024

func shorten(value string, most int) string {
	if len(value) <= most {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	end := "…" + hexText(sum[:8])
	if most < len(end) {
		return ""
	}
	cut := most - len(end)
	for cut > 0 && !utf8.RuneStart(value[cut]) {
		cut--
	}
	return value[:cut] + end
}
