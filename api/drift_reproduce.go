package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index/records"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
	"colophon/storage"
)

// hashPair is the recorded hash and the hash of the re-run.
type hashPair struct {
	Recorded *string `json:"recorded"`
	Rerun    *string `json:"rerun"`
	Match    bool    `json:"match"` // false if one is null
}

func hashPairOf(recorded, rerun []byte) hashPair {
	return hashPair{textOrNull(recorded), textOrNull(rerun), recorded != nil && string(recorded) == string(rerun)}
}

// reproduction compares a re-run with the record that it repeats.
type reproduction struct {
	answerTree
	Record     generationRow `json:"record"`
	IPCID      hashPair      `json:"ipc_id"`
	OutputHash hashPair      `json:"output_hash"`
	attribution
}

// reproduce answers whether a re-run reproduced the recorded output. It records nothing.
func (s *Server) reproduce(c echo.Context) error {
	body, err := s.readQuestion(c)
	if err != nil {
		return err
	}
	defer release(body)
	if err := s.beginDecoding(c, body); err != nil {
		return err
	}
	var document pyjson.Document
	request, seq, err := decodeRerun(&document, body.Bytes())
	if err != nil {
		return err
	}
	q, err := s.openQueryAbout(c, []string{decimal(seq)}, withProofs)
	if err != nil {
		return err
	}
	defer q.close()
	recorded, err := records.ReadIPCRecord(q.ctx, q.view, seq)
	if errors.Is(err, storage.ErrNotFound) {
		return atPointer(http.StatusUnprocessableEntity, "/seq", fmt.Sprintf("event %d is not an IPC record among the first %d events", seq, q.view.Size()))
	}
	if err != nil {
		return err
	}
	rerun, err := s.rerun(request, &recorded)
	if err != nil {
		return err
	}
	found := drift.Attribute(&recorded.IPC, &rerun)
	answer := &reproduction{
		Record: generationRowOf(&recorded), IPCID: hashPairOf(recorded.IPCID, rerun.IPCID),
		OutputHash: hashPairOf(recorded.OutputHash, rerun.OutputHash), attribution: attributionOf(&found),
	}
	answer.Says = answer.sentence(&found)
	if err := answer.Record.proveIn(q); err != nil {
		return err
	}
	return answerOne(q, answer)
}

// sentence states the result of the comparison.
func (r *reproduction) sentence(a *drift.Attribution) string {
	switch {
	case a.Cause == drift.Incomplete:
		return a.Sentence()
	case r.OutputHash.Match && r.IPCID.Match:
		return "Reproduced: the same input and conditions gave the same output. " + a.Sentence()
	case r.OutputHash.Match:
		return "The output is the same, but it was made under other conditions, which proves little. " + a.Sentence()
	case r.IPCID.Match:
		return "Not reproduced: the input and conditions are the same, the output is not. " + a.Sentence()
	}
	return "Not a reproduction: the conditions differ, and so does the output. " + a.Sentence()
}

// rerunNames are the members of a re-run, except seq. They are those of an IPC record.
var rerunNames = []string{"payload", "input_hash", "payload_schema", "system_prompt", "system_prompt_hash", "output", "output_hash",
	"model", "temperature", "max_tokens", "seed", "environment"}

// decodeRerun reads the members of the re-run that the request gives, and the seq of the
// record that it repeats.
func decodeRerun(document *pyjson.Document, body []byte) (request map[string]pyjson.Value, seq uint64, err error) {
	if err := document.ParseWithin(body, record.DefaultLimits().Values); err != nil {
		return nil, 0, atPointer(http.StatusBadRequest, "", "the request is malformed: "+err.Error())
	}
	root := document.Root()
	if root.Kind() != pyjson.Object {
		return nil, 0, atPointer(http.StatusUnprocessableEntity, "", "must be an object")
	}
	request = make(map[string]pyjson.Value)
	for name, value := range root.Members() {
		switch text := string(name.Text()); {
		case text != "seq" && !slices.Contains(rerunNames, text):
			return nil, 0, atPointer(http.StatusBadRequest, string(pyjson.AppendPointer(nil, name.Text())), "unknown member; remove it or correct its name")
		case value.Given():
			request[text] = value
		}
	}
	if !request["seq"].Given() {
		return nil, 0, atPointer(http.StatusUnprocessableEntity, "/seq", "is required: the seq of the IPC record that was run again")
	}
	number, _ := request["seq"].AppendInteger(nil)
	if seq, err = parseCount("seq", string(number)); err != nil {
		return nil, 0, atPointer(http.StatusUnprocessableEntity, "/seq", "must be a number: the seq of the IPC record that was run again")
	}
	delete(request, "seq")
	if _, ok := request["output"]; !ok && !request["output_hash"].Given() {
		return nil, 0, atPointer(http.StatusUnprocessableEntity, "/output", "is required, or output_hash: the output of the re-run")
	}
	return request, seq, nil
}

// rerun returns the IPC record that the re-run would have made. The inputs of ipc_id that the
// request omits are taken from the recorded one. A payload is read like the recorded payload.
// If the payload is the same, the recorded seed wins over the seed in the payload (spec:
// Receipts). An environment that the request omits stays unknown, because it may have changed.
func (s *Server) rerun(request map[string]pyjson.Value, recorded *records.IPCRecord) (event.IPC, error) {
	rerun, err := s.rerunWith(request, recorded, recorded.Seed)
	if err != nil || !request["payload"].Member("seed").Given() || string(rerun.InputHash) == string(recorded.InputHash) {
		return rerun, err
	}
	return s.rerunWith(request, recorded, nil) // a different payload has its own seed
}

// rerunWith uses seed if the request names none. With nil the seed in the payload applies.
func (s *Server) rerunWith(request map[string]pyjson.Value, recorded *records.IPCRecord, seed []byte) (event.IPC, error) {
	r, err := s.config.Limits.Parse(record.IPCRecord, rerunBody(request, recorded, seed))
	if err != nil {
		return event.IPC{}, err
	}
	defer r.Release()
	entry := r.AppendBody(make([]byte, proofs.HashSize), record.Event{})
	var decoder event.Decoder
	e, err := decoder.Decode(record.AppendSuffix(entry, 0, time.Time{}))
	if err != nil {
		return event.IPC{}, fmt.Errorf("reading the record of a re-run: %w", err)
	}
	return e.IPC(), nil
}

// rerunBody returns the re-run as a request to record it.
func rerunBody(request map[string]pyjson.Value, recorded *records.IPCRecord, seed []byte) []byte {
	body := []byte{'{'}
	for _, m := range []struct {
		name     string
		recorded []byte // as JSON; nil for none
		instead  string // a member that replaces it if the request has it
	}{
		{"payload", nil, ""}, {"payload_schema", schemaOf(request["payload"], recorded), ""}, {"input_hash", quoted(recorded.InputHash), "payload"},
		{"system_prompt", nil, ""}, {"system_prompt_hash", quoted(recorded.SystemPromptHash), "system_prompt"},
		{"output", nil, ""}, {"output_hash", nil, ""},
		{"model", quoted(recorded.Model), ""}, {"temperature", recorded.Temperature, ""}, {"max_tokens", recorded.MaxTokens, ""},
		{"seed", seed, ""}, {"environment", nil, ""},
	} {
		value := m.recorded
		if given, ok := request[m.name]; ok {
			value = given.Raw()
		} else if _, ok := request[m.instead]; ok {
			continue
		}
		if value == nil {
			continue
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(append(pyjson.AppendString(body, []byte(m.name)), ':'), value...)
	}
	return append(body, '}')
}

// quoted returns a text as JSON, and nil for nil.
func quoted(text []byte) []byte {
	if text == nil {
		return nil
	}
	return pyjson.AppendString(nil, text)
}

// schemaOf returns the schema for the payload of a request that names none: that of the
// recorded payload. It returns nil if there is no payload.
func schemaOf(payload pyjson.Value, recorded *records.IPCRecord) []byte {
	if !payload.Given() {
		return nil
	}
	return quoted(recorded.PayloadSchema())
}
