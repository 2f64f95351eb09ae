package wire

import "encoding/json"

// TextLength is the length of a text in bytes, in characters and in words. Words are separated by
// white space. In a script without spaces, each character is counted as a word.
type TextLength struct {
	Bytes      uint64 `json:"bytes"`
	Characters uint64 `json:"characters"`
	Words      uint64 `json:"words"`
}

// TextChange describes how much a text changed from A to B. It covers only content that has not been erased. A
// is nil if there is no text to compare B with.
type TextChange struct {
	Unavailable  UnavailableReason `json:"unavailable,omitempty"` // why the other fields are missing
	A            *TextLength       `json:"a,omitempty"`
	B            *TextLength       `json:"b,omitempty"`
	Similarity   *Decimal          `json:"similarity,omitempty"`    // fraction of words and punctuation marks that stay the same, from 0 to 1
	LengthChange *Decimal          `json:"length_change,omitempty"` // number of words in B divided by the number of words in A, minus 1; nil if A has no words
	LowerBound   bool              `json:"bounded,omitempty"`       // the texts are long, so Similarity is only a lower bound
}

// UnavailableReason states why the lengths and similarity of texts are missing.
type UnavailableReason string

// Reasons why lengths and similarity are missing.
const (
	UnavailableRedacted  UnavailableReason = "redacted"   // the content of a record has been redacted
	UnavailableNotPosted UnavailableReason = "not_posted" // a record was posted without the text
	UnavailableWorkLimit UnavailableReason = "limit"      // earlier rows of the response used up the work allowed for one response
)

// RunTextChanges describes how much each of three texts changed between two runs.
type RunTextChanges struct {
	Output  TextChange `json:"output"`
	Prompt  TextChange `json:"prompt"` // the system prompt
	Payload TextChange `json:"payload"`
}

// EffectTextSummary summarises how much the outputs of pairs of runs differ.
type EffectTextSummary struct {
	Pairs       uint64 `json:"pairs"`       // number of pairs that the figures below cover
	Partial     bool   `json:"sample"`      // the figures cover only the first pairs, and there are more
	Unavailable uint64 `json:"unavailable"` // number of further pairs that the figures do not cover, because their texts cannot be read
	// Similarity, LengthChange, WordsA, and WordsB are nil if they have no value for any pair.
	Similarity   *Quartiles `json:"similarity"`
	LengthChange *Quartiles `json:"length_change"`
	WordsA       *Quartiles `json:"words_a"`
	WordsB       *Quartiles `json:"words_b"`
	// SimilarityHistogram counts the pairs by similarity, in ten equal intervals from 0 to 1. The last
	// interval includes 1.
	SimilarityHistogram []uint64 `json:"similarity_histogram"`
	// WordsHistogram counts the outputs by their length, in at most ten intervals of equal width.
	WordsHistogram []WordCountBucket `json:"words_histogram"`
	MostChanged    []ChangedPair     `json:"most_changed"` // at most one page of pairs; the least similar pair comes first
}

// Quartiles holds the three values that divide sorted figures into four equal parts.
type Quartiles struct {
	Q1     Decimal `json:"q1"`
	Median Decimal `json:"median"`
	Q3     Decimal `json:"q3"`
}

// WordCountBucket counts the outputs that have at least From words but fewer than Below.
type WordCountBucket struct {
	From  uint64 `json:"from"`
	Below uint64 `json:"below"`
	A     uint64 `json:"a"` // number of outputs of runs in which the variable has the value A
	B     uint64 `json:"b"`
}

// ChangedPair holds the seqs of two runs, and how much the output changed.
type ChangedPair struct {
	A            uint64        `json:"a"` // seq of run A
	B            uint64        `json:"b"` // seq of run B
	Similarity   Decimal       `json:"similarity"`
	LengthChange *Decimal      `json:"length_change,omitempty"`
	Name         *ReadableName `json:"name,omitempty"` // readable name of the input; set only if the request has names=true
}

// TextDiff holds the difference between two texts, word by word.
type TextDiff struct {
	ContentName  string     `json:"of"` // name of the compared content
	A            DiffedText `json:"a"`
	B            DiffedText `json:"b"`
	Similarity   Decimal    `json:"similarity"`
	LengthChange *Decimal   `json:"length_change,omitempty"`
	LowerBound   bool       `json:"bounded,omitempty"` // the texts are so long that Similarity is only a lower bound
	Edits        []TextEdit `json:"edits"`
}

// DiffedText is one of two compared texts.
type DiffedText struct {
	Seq    uint64 `json:"seq"`
	SHA256 string `json:"sha256"` // SHA-256 of the text's bytes
	TextLength
}

// TextEdit is a part of a diff. Leaving out the deleted parts yields text B. Leaving out the inserted parts
// yields text A, except that white space can differ.
type TextEdit struct {
	Op   EditOp `json:"op"`
	Text string `json:"text"`
}

// EditOp states which of the two texts contain a part of a diff.
type EditOp string

// Operations of a [TextEdit].
const (
	EditEqual  EditOp = "equal"  // both texts contain the part
	EditDelete EditOp = "delete" // only A contains the part
	EditInsert EditOp = "insert" // only B contains the part
)

// ReadableName is a readable name for a hash. At least one of Label and Words is present.
type ReadableName struct {
	// Label is the value of a label that the records have: prompt, system_prompt or config. It is
	// present only if the first and the last run with the system prompt have the same value.
	Label string `json:"label,omitempty"`
	// Words holds the first words of the text on one line, at most 100 characters. Words from content are
	// present only if the caller is allowed to read content and the record has not been redacted.
	Words     string `json:"words,omitempty"`
	Truncated bool   `json:"cut,omitempty"` // the text continues after Words
}

// RunNames holds readable names for the input, the prompt and the output of a run.
type RunNames struct {
	Model        string        `json:"model"`
	Temperature  json.Number   `json:"temperature,omitempty"`
	Input        *ReadableName `json:"input,omitempty"`
	SystemPrompt *ReadableName `json:"system_prompt,omitempty"`
	Output       *ReadableName `json:"output,omitempty"`
}

// NameOf returns the readable name of the run's input or system prompt. It returns "" if the value
// has no name, or if the variable is neither input nor system_prompt.
func (n *RunNames) NameOf(variable string) string {
	if n == nil || variable != "input" && variable != "system_prompt" {
		return ""
	}
	name := n.Input
	if variable == "system_prompt" {
		name = n.SystemPrompt
	}
	switch {
	case name == nil:
		return ""
	case name.Label != "":
		return name.Label
	case name.Truncated:
		return name.Words + "…"
	}
	return name.Words
}
