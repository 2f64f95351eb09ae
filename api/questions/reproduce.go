package questions

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/ledger/event"
	"colophon/ledger/index/records"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// CompareRerun reports whether a re-run reproduced the recorded output. It records nothing.
func (h *Handlers) CompareRerun(c *call.Call) error {
	body, err := c.ReadQueryBody()
	if err != nil {
		return err
	}
	defer body.Release()
	if err := c.BeginDecoding(body); err != nil {
		return err
	}
	var document pyjson.Document
	request, seq, err := decodeRerun(&document, body.Bytes())
	if err != nil {
		return err
	}
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if err := missingSecret(c.Request().Context(), l); err != nil {
		return err
	}
	limits := h.RecordLimits.WithPayloadMemberSecret(l.PayloadMemberSecret())
	_, view, err := h.openView(c, &query.ReproductionQuestion, query.Parameters{"seq": strconv.FormatUint(seq, 10)}, c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	defer view.Close()
	answer, err := query.CheckReproduction(view, seq, func(recorded *records.IPCRecord) (event.IPC, error) { return rerun(limits, request, recorded) })
	if err != nil {
		return err
	}
	return sendAnswer(c, view, answer)
}

// rerunNames lists the members, apart from seq, that a request to compare a re-run can have. All of
// them are members of an IPC record.
var rerunNames = []string{"payload", "input_hash", "payload_schema", "system_prompt", "system_prompt_hash", "output", "output_hash",
	"model", "temperature", "max_tokens", "seed", "environment"}

// decodeRerun returns the members of the re-run that are in the request, and the seq of the record
// that the re-run repeats.
func decodeRerun(document *pyjson.Document, body []byte) (request map[string]pyjson.Value, seq uint64, err error) {
	if err := document.ParseLimited(body, record.DefaultLimits().MaxJSONValues); err != nil {
		return nil, 0, problem.AtPointer(http.StatusBadRequest, "", "the request is malformed: "+err.Error())
	}
	root := document.Root()
	if root.Kind() != pyjson.Object {
		return nil, 0, problem.AtPointer(http.StatusUnprocessableEntity, "", "must be an object")
	}
	request = make(map[string]pyjson.Value)
	for name, value := range root.Members() {
		switch text := string(name.Text()); {
		case text != "seq" && !slices.Contains(rerunNames, text):
			return nil, 0, problem.AtPointer(http.StatusBadRequest, string(pyjson.AppendPointerToken(nil, name.Text())), "unknown member; remove it or correct its name")
		case value.IsGiven():
			request[text] = value
		}
	}
	if !request["seq"].IsGiven() {
		return nil, 0, problem.AtPointer(http.StatusUnprocessableEntity, "/seq", "is required; use the seq of the IPC record that was re-run")
	}
	number, _ := request["seq"].AppendInteger(nil)
	if seq, err = query.ParseUint("seq", string(number)); err != nil {
		return nil, 0, problem.AtPointer(http.StatusUnprocessableEntity, "/seq", "must be a number: the seq of the IPC record that was re-run")
	}
	delete(request, "seq")
	if _, ok := request["output"]; !ok && !request["output_hash"].IsGiven() {
		return nil, 0, problem.AtPointer(http.StatusUnprocessableEntity, "/output", "the output of the re-run is required; use \"output\" or \"output_hash\"")
	}
	return request, seq, nil
}

// rerun returns the IPC record that the re-run would have made. Inputs of ipc_id that the request
// omits are taken from recorded. A payload is parsed like the recorded payload. If the payload is
// the same, the recorded seed takes precedence over the seed in the payload (spec: Receipts). An
// environment that the request omits stays unknown, because it might have changed.
func rerun(limits record.Limits, request map[string]pyjson.Value, recorded *records.IPCRecord) (event.IPC, error) {
	rerun, err := rerunWith(limits, request, recorded, recorded.Seed)
	if err != nil || !request["payload"].Member("seed").IsGiven() || string(rerun.InputHash) == string(recorded.InputHash) {
		return rerun, err
	}
	return rerunWith(limits, request, recorded, nil) // the request has a different payload, whose seed applies
}

// rerunWith returns the IPC record of the re-run. The record's seed comes from the request if
// the request has one. Otherwise it is the given seed or, if that is nil, the seed in the
// payload.
func rerunWith(limits record.Limits, request map[string]pyjson.Value, recorded *records.IPCRecord, seed []byte) (event.IPC, error) {
	r, err := limits.ParseRecord(record.KindIPCRecord, rerunBody(request, recorded, seed))
	if err != nil {
		return event.IPC{}, err
	}
	defer r.Release()
	entry := r.AppendBodyPrefix(make([]byte, proofs.HashSize), record.EventContext{})
	var decoder event.Decoder
	e, err := decoder.Decode(record.AppendBodySuffix(entry, 0, time.Time{}))
	if err != nil {
		return event.IPC{}, fmt.Errorf("reading the record of a re-run: %w", err)
	}
	return e.IPC(), nil
}

// rerunBody returns the body of a request that would record the re-run.
func rerunBody(request map[string]pyjson.Value, recorded *records.IPCRecord, seed []byte) []byte {
	body := []byte{'{'}
	for _, m := range []struct {
		name     string
		recorded []byte // recorded value as JSON; nil if there is none
		instead  string // request member that, if present, replaces the recorded value
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

// quoted returns text as a JSON string, or nil if text is nil.
func quoted(text []byte) []byte {
	if text == nil {
		return nil
	}
	return pyjson.AppendString(nil, text)
}

// schemaOf returns, as JSON, the payload schema that applies if the request does not name one.
// It returns the recorded schema, or nil if the request has no payload.
func schemaOf(payload pyjson.Value, recorded *records.IPCRecord) []byte {
	if !payload.IsGiven() {
		return nil
	}
	return quoted(recorded.PayloadSchema)
}
