package formats

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// AxisLabMetadataFile is the name of the file that marks a folder as a save of Axis Descriptor Lab.
const AxisLabMetadataFile = "metadata.json"

// AxisLabSaveFiles lists the files in a save and says whether each is JSON. The other files are
// text.
var AxisLabSaveFiles = map[string]struct{ JSON bool }{
	AxisLabMetadataFile: {true}, "payload.json": {true}, "system_prompt.md": {}, "output.md": {}, "baseline.md": {},
	"delta.json": {true}, "transformation_map.json": {true},
}

// axisSave converts a save of Axis Descriptor Lab. v is an object with a member for each file: a
// string for a .md file, and a JSON value for any other file.
func axisSave(v pyjson.Value, o Options) Conversion {
	d := newDraft(record.KindIPCRecord, key(AxisLabSave, v, nil), o)
	metadata := v.Member(AxisLabMetadataFile)
	if !isObject(metadata) {
		d.note("", "", OutcomeLeftOut, "no record was created")
		return d.leave("%s is missing or is not a JSON object", AxisLabMetadataFile)
	}
	for name, value := range v.Members() {
		file := string(name.Text())
		m := member{file, value}
		switch {
		case file == AxisLabMetadataFile:
			d.metadata(value)
		case file == "payload.json":
			d.payload(m)
		case file == "system_prompt.md" && isText(value):
			d.takeText(m, "system_prompt", fenced)
		case file == "output.md" && isText(value):
			d.takeText(m, "output", body)
		default:
			d.keep(m)
		}
	}
	d.compareManifest(v)
	return d.finish()
}

// metadata adds the members of v, the content of metadata.json, to the record.
func (d *draft) metadata(v pyjson.Value) {
	prefix, pattern := d.prefix, d.pattern
	d.prefix += pointerTo(AxisLabMetadataFile)
	d.pattern = d.prefix
	for name, value := range v.Members() {
		m := member{string(name.Text()), value}
		if m.name == "folder_name" {
			d.take(m, "run_id", isID)
			continue
		}
		d.ipcMember(m)
	}
	d.flatEnvironment(v)
	d.prefix, d.pattern = prefix, pattern
}

// takeText uses the function text to extract a text from a file, and adds it to the record as the
// given field. If text returns false or the field is already set, takeText keeps the whole file.
func (d *draft) takeText(m member, field string, text func([]byte) ([]byte, bool)) {
	inner, ok := text(m.value.Text())
	if !ok || d.names[field] {
		d.keep(m)
		return
	}
	d.text(field, inner)
	d.note(pointerTo(m.name), "", OutcomeField, "%s, without the text that Axis Descriptor Lab adds around it", field)
}

// fenced returns the system prompt from system_prompt.md, which is the text between the first line
// "```text" and the last line "```". ok is false if the file lacks either line.
func fenced(file []byte) (text []byte, ok bool) {
	_, rest, found := bytes.Cut(file, []byte("\n```text\n"))
	text, closed := bytes.CutSuffix(rest, []byte("\n```\n"))
	return text, found && closed
}

// body returns the text in output.md that follows the heading, the comments, and an empty line. ok
// is false if the file has a different form.
func body(file []byte) (text []byte, ok bool) {
	rest, ok := bytes.CutPrefix(file, []byte("# Output\n\n"))
	for ok {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		if !found || !bytes.HasPrefix(line, []byte("<!--")) || !bytes.HasSuffix(line, []byte("-->")) {
			break
		}
		rest = after
	}
	rest, empty := bytes.CutPrefix(rest, []byte("\n"))
	text, ended := bytes.CutSuffix(rest, []byte("\n"))
	return text, ok && empty && ended
}

// compareManifest adds a note for each text file whose SHA-256 differs from the one in the
// manifest. It does not compare the JSON files, because their original bytes are not available.
func (d *draft) compareManifest(v pyjson.Value) {
	files := v.Member(AxisLabMetadataFile).Member("manifest").Member("files")
	for name, file := range files.Members() {
		text, claimed := v.Member(string(name.Text())), file.Member("sha256")
		if !isText(text) || !isDigest(claimed) {
			continue
		}
		sum := sha256.Sum256(text.Text())
		if hex.EncodeToString(sum[:]) != string(claimed.Text()) {
			d.note(pointerTo(AxisLabMetadataFile)+"/manifest/files"+pointerTo(string(name.Text())), "", OutcomeContent,
				"usage/imported: the SHA-256 of the file does not match the manifest")
		}
	}
}
