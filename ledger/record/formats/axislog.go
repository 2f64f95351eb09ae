package formats

import (
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// axisLog converts one line of run_log.jsonl. Lines written by old versions may lack the hashes of
// the provenance chain.
func axisLog(v pyjson.Value, o Options) Conversion {
	d := newDraft(record.KindIPCRecord, key(AxisLabLog, v, nil), o)
	for name, value := range v.Members() {
		d.ipcMember(member{string(name.Text()), value})
	}
	d.flatEnvironment(v)
	return d.finish()
}

// ipcForms contains the members that have the same name in an IPC record. It maps each name to the
// function that checks the member's value.
var ipcForms = map[string]func(pyjson.Value) bool{
	"input_hash": isDigest, "system_prompt_hash": isDigest, "output_hash": isDigest, "ipc_id": isDigest, "ipc_id_advanced": isDigest,
	"system_prompt": isText, "output": isText, "model": isName, "run_id": isID,
	"temperature": isNumber, "max_tokens": isCount, "seed": isInteger,
}

// ipcMember adds a member from run_log.jsonl or metadata.json to the record.
func (d *draft) ipcMember(m member) {
	if form := ipcForms[m.name]; form != nil {
		d.take(m, m.name, form)
		return
	}
	switch m.name {
	case "payload":
		d.payload(m)
	case "timestamp":
		d.time(m)
	case "labels":
		d.labelsOf(m)
	case "usage":
		d.takeUsage(m)
	case "environment":
		if isEnvironment(m.value) {
			d.take(m, "environment", isObject)
			return
		}
		d.keep(m)
	case rules.EnvironmentMembers[0], rules.EnvironmentMembers[1], rules.EnvironmentMembers[2]:
		if !isName(m.value) { // otherwise flatEnvironment adds it
			d.keep(m)
		}
	default:
		d.keep(m)
	}
}

// payload adds the payload to the record. If the payload has the format of Axis Descriptor Lab,
// payload also sets the payload schema to axis-payload-1. The ledger then hashes the payload in the
// same way as Axis Descriptor Lab.
func (d *draft) payload(m member) {
	d.take(m, "payload", isStrict)
	if d.names["payload"] && isAxisPayload(m.value) {
		d.text("payload_schema", []byte(rules.AxisPayloadSchema))
	}
}

// isAxisPayload reports whether a payload has the form that the schema axis-payload-1 requires.
func isAxisPayload(v pyjson.Value) bool {
	axes := v.Member("axes")
	seed := v.Member("seed")
	if !isObject(axes) || !isName(v.Member("policy_hash")) || !isName(v.Member("world_id")) || !isInteger(seed) {
		return false
	}
	for _, axis := range axes.Members() {
		score, ok := axis.Member("score").Float()
		if !isText(axis.Member("label")) || !ok || score < 0 || score > 1 {
			return false
		}
	}
	return true
}

// takeUsage adds usage to the record unchanged. If usage is not an object, contains a lone
// surrogate, or has a member "imported", takeUsage keeps it like any other member. The draft needs
// the name "imported" for members that have no field of their own.
func (d *draft) takeUsage(m member) {
	if !isStrict(m.value) || m.value.Member("imported").Kind() != pyjson.Absent {
		d.keep(m)
		return
	}
	d.usage = m.value
	d.note(pointerTo(m.name), "", OutcomeField, "usage")
}

func isEnvironment(v pyjson.Value) bool {
	if !isObject(v) {
		return false
	}
	known := 0
	for _, name := range rules.EnvironmentMembers {
		if value := v.Member(name); value.Kind() != pyjson.Absent {
			known++
			if value.IsGiven() && !isName(value) {
				return false
			}
		}
	}
	return known == v.Len()
}

// flatEnvironment adds a member "environment" to the record if v has any of the environment's
// members at its top level.
func (d *draft) flatEnvironment(v pyjson.Value) {
	var found []member
	for _, name := range rules.EnvironmentMembers {
		if value := v.Member(name); isName(value) {
			found = append(found, member{name, value})
		}
	}
	if len(found) == 0 {
		return
	}
	if d.names["environment"] {
		for _, m := range found {
			d.keep(m)
		}
		return
	}
	d.w.BeginMember("environment")
	d.w.BeginObject()
	for _, m := range found {
		d.w.AddText(m.name, m.value.Text())
		d.note(pointerTo(m.name), "", OutcomeField, "environment/%s", m.name)
	}
	d.w.EndObject()
}
