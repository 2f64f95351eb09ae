package audit

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
)

// A refusal lists every failed check, including checks of evidence. The walk accepts the names of
// these checks but rejects malformed names.
func TestRefusalsOfRunDAGs(t *testing.T) {
	zeros, ones := strings.Repeat("0", 64), strings.Repeat("1", 64)
	r, err := ledgerLimits.ParseRecord(record.KindRunDAG, []byte(`{"question":"Who?","dag":{"root":"`+ones+`","nodes":[{"stage":"question","hash":"`+zeros+`"},{"stage":"render","hash":"`+zeros+`"}]},`+
		`"answer_text":"Ana.","evidence":[{"chunk_root":"`+zeros+`","start":0,"end":9},{"chunk_root":"`+zeros+`","start":0,"end":4,"evidence_id":"E00000000","span":"Ana.","text_hash":"`+ones+`"}]}`))
	require.NoError(t, err)
	var failed []string
	for _, check := range r.Mismatches() {
		failed = append(failed, check.Field)
	}
	require.Equal(t, []string{"evidence/1/evidence_id", "evidence/1/text_hash", "stage:question", "stage:render", "root"}, failed)
	body := r.AppendRefusal(nil, record.EventContext{Actor: "lab", Ledger: "default"}, record.RefusalMismatch, 0)
	for _, c := range []struct {
		from, to string
		fine     bool
	}{
		{"", "", true},
		{`evidence/1/evidence_id`, `evidence/01/evidence_id`, false},
		{`evidence/1/evidence_id`, `evidence/1/evidence_ie`, false},
		{`evidence/1/text_hash`, `evidence//text_hash`, false},
	} {
		m := newMemory(t, 3)
		m.add(bytes.ReplaceAll(body, []byte(c.from), []byte(c.to)))
		m.head.Size++
		m.seal(t)
		damage := walked(t, m).Damage
		require.Equal(t, c.fine, damage == nil, "%s: %v", c.to, damage)
	}
}
