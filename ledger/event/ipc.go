package event

import (
	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
)

// IPC holds the fields of an ipc_record event, which describes one generation of text (interpretive
// provenance chain; spec: IPC record).
type IPC = fields.IPC

// IPC reads the fields of an ipc_record event.
func (e *Event) IPC() (r IPC) {
	e.readIPC(&r, nil)
	return r
}

// readIPC reads the fields of an event into r, which must be zero. If other is not nil, readIPC
// also reads the members that several kinds of records have in common, and stores them in other.
func (e *Event) readIPC(r *IPC, other *Body) {
	for name, value := range e.Record.Members() {
		switch string(name.Text()) {
		case "hashes":
			ipcHashes(r, value)
		case "content":
			r.HasPayload = value.Member("payload").IsGiven()
			if other != nil {
				other.readContents(value)
			}
		case "environment":
			r.OllamaBuildHash = text(value.Member("ollama_build_hash"))
			r.ModelDigest = text(value.Member("model_digest"))
			r.HostPlatform = text(value.Member("host_platform"))
		case "model":
			r.Model = text(value)
		case "temperature":
			r.Temperature = raw(value)
		case "max_tokens":
			r.MaxTokens = raw(value)
		case "payload_members":
			r.MemberDigests = value.Raw()
		case "payload_schema":
			r.PayloadSchema = text(value)
		case "seed":
			r.Seed = raw(value)
		case "usage":
			r.Usage = value
		default:
			if other != nil {
				other.readCommon(name.Text(), value)
			}
		}
	}
}

func ipcHashes(r *IPC, object pyjson.Value) {
	for name, value := range object.Members() {
		switch string(name.Text()) {
		case "input_hash":
			r.InputHash = text(value)
		case "system_prompt_hash":
			r.SystemPromptHash = text(value)
		case "output_hash":
			r.OutputHash = text(value)
		case "seedless_input_hash":
			r.SeedlessInputHash = text(value)
		case "ipc_id":
			r.IPCID = text(value)
		case "ipc_id_advanced":
			r.IPCIDAdvanced, r.HasIPCIDAdvanced = text(value), true
		}
	}
}

// raw returns the JSON source of a value, such as a number, or nil if the value is null or absent.
func raw(v pyjson.Value) []byte {
	if !v.IsGiven() {
		return nil
	}
	return v.Raw()
}
