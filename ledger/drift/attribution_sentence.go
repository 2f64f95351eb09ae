package drift

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// variableNames maps a variable to its name in sentences.
var variableNames = map[string]string{
	string(CauseInput): "input", string(CauseSystemPrompt): "system prompt", string(CauseModel): "model", string(CauseTemperature): "temperature",
	string(CauseMaxTokens): "max_tokens", string(CauseSeed): "seed", string(CauseOllamaBuild): "ollama build", string(CauseHostPlatform): "host platform",
	variables[modelDigest]: "model digest", string(CauseEvidence): "citation set",
}

// Sentence returns one or two English sentences that state the cause and show the values that
// differ.
func (r *RunChange) Sentence() string {
	switch r.Cause {
	case CauseIncomplete:
		return "The records cannot be compared: an output is missing."
	case CauseIdentical:
		return "Nothing differs: the inputs and the output are the same."
	case CauseNoEffect:
		return fmt.Sprintf("The output is the same although the %s.", r.differencesText())
	case CauseConfounded:
		return fmt.Sprintf("The output changed, but several variables also changed, so no single cause can be identified: the %s.", r.differencesText())
	case CauseModelInternal:
		return fmt.Sprintf("The output changed although the inputs are the same: the %s, so the same name now refers to a different model.", r.differencesText())
	case CauseUnseeded:
		return "The output changed although nothing is known to differ. No seed was given, so the model may answer differently each time."
	case CauseStochastic:
		return "The output changed although nothing differs, the model digest included: the model does not always give the same answer."
	case CauseStochasticOrModelInternal:
		return "The output changed although nothing is known to differ. A model digest is unknown, so the cause may be chance or another model under the same name."
	}
	return fmt.Sprintf("The output changed because the %s; no other variable differs.", r.differencesText())
}

// comparedHashes lists the compared fields that are hashes.
var comparedHashes = [...]string{"input_hash", "system_prompt_hash", "output_hash"}

// MismatchSentence returns a sentence that lists the compared hashes of the event at seq that do
// not match the claimed values. fields contains the names of all fields whose check is "mismatch"
// (spec: Checks). The sentence is empty if fields contains no compared hash.
func MismatchSentence(seq uint64, fields []string) string {
	var hashes []string
	for _, hash := range comparedHashes {
		if slices.Contains(fields, hash) {
			hashes = append(hashes, hash)
		}
	}
	switch last := len(hashes) - 1; {
	case last < 0:
		return ""
	case last == 0:
		return fmt.Sprintf("The %s of event %d, computed from its content, does not match the claimed value.", hashes[0], seq)
	default:
		return fmt.Sprintf("The %s and %s of event %d, computed from its content, do not match the claimed values.",
			strings.Join(hashes[:last], ", "), hashes[last], seq)
	}
}

// differencesText returns the differences as text, such as "model differs (a, then b)".
func (r *RunChange) differencesText() string {
	if len(r.Differences) == 1 {
		d := r.Differences[0]
		return fmt.Sprintf("%s differs%s (%s, then %s)", variableNames[d.Variable], d.membersText(), d.show(d.ValueA, d.NameA), d.show(d.ValueB, d.NameB))
	}
	list := make([]string, len(r.Differences))
	for i, d := range r.Differences {
		list[i] = fmt.Sprintf("%s%s (%s, then %s)", variableNames[d.Variable], d.membersText(), d.show(d.ValueA, d.NameA), d.show(d.ValueB, d.NameB))
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " and " + list[last] + " differ"
}

// show formats a value of the variable for a sentence. It uses name instead if name is not empty.
func (d *Difference) show(value []byte, name string) string {
	if name != "" {
		return "“" + abbreviate([]byte(name)) + "”"
	}
	if d.Variable == string(CauseEvidence) {
		return "event " + string(value)
	}
	return abbreviate(value)
}

// maxShownMembers is the maximum number of payload members that a sentence lists.
const maxShownMembers = 3

// membersText lists or counts the payload members that differ. The text is empty or begins with a
// space.
func (d *Difference) membersText() string {
	switch {
	case len(d.Members) == 0:
		return ""
	case len(d.Members) > maxShownMembers:
		return fmt.Sprintf(" in %d members", len(d.Members))
	}
	names := make([]string, len(d.Members))
	for i := range d.Members {
		names[i] = d.Members[i].Pointer
	}
	return " in " + strings.Join(names, ", ")
}

// maxShownBytes is the maximum number of bytes of a value that a sentence shows.
const maxShownBytes = 48

// abbreviate truncates a value that is longer than maxShownBytes, and shortens a hash to its
// first 12 digits.
func abbreviate(value []byte) string {
	switch {
	case value == nil:
		return "none"
	case len(value) == 64 && !strings.ContainsFunc(string(value), notHex):
		return string(value[:12]) + "…"
	case len(value) <= maxShownBytes:
		return string(value)
	}
	end := maxShownBytes
	for !utf8.RuneStart(value[end]) {
		end--
	}
	return string(value[:end]) + "…"
}

func notHex(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }
