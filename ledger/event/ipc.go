package event

import "colophon/ledger/record/pyjson"

// IPC is what an ipc_record event says (1.3). Values are text as the event has
// them, numbers in their canonical form; nil where null or absent.
type IPC struct {
	InputHash, SystemPromptHash, OutputHash, IPCID []byte

	Model, Temperature, MaxTokens, Seed []byte

	OllamaBuildHash, ModelDigest, HostPlatform []byte
}

// IPC reads an ipc_record event.
func (e *Event) IPC() IPC {
	var r IPC
	for name, value := range e.Detail.Members() {
		switch string(name.Text()) {
		case "hashes":
			r.hashes(value)
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
		case "seed":
			r.Seed = raw(value)
		}
	}
	return r
}

func (r *IPC) hashes(object pyjson.Value) {
	for name, value := range object.Members() {
		switch string(name.Text()) {
		case "input_hash":
			r.InputHash = text(value)
		case "system_prompt_hash":
			r.SystemPromptHash = text(value)
		case "output_hash":
			r.OutputHash = text(value)
		case "ipc_id":
			r.IPCID = text(value)
		}
	}
}

// IsRun reports whether the record is a run: it has an ipc_id and an output hash
// (4.1).
func (r *IPC) IsRun() bool { return r.IPCID != nil && r.OutputHash != nil }

// raw is a number as it stands, nil where there is none.
func raw(v pyjson.Value) []byte {
	if !v.Given() {
		return nil
	}
	return v.Raw()
}
