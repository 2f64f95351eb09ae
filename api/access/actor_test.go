package access

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
)

// record.IsActorName, which the auditor uses, accepts every actor name that Authenticate can
// return.
func TestActorsAreActors(t *testing.T) {
	longest := strings.Repeat("a", 64)
	for _, name := range []string{anonymous, longest, "mtls:" + longest, "oidc:" + longest + ":" + strings.Repeat("é", maxClaimedName/2) + "e", "oidc:auth0|5f7c"} {
		require.True(t, record.IsActorName([]byte(name)), name)
	}
	for r := rune(0); r <= 0x10FFFF; r++ {
		for _, name := range []string{string(r), "a" + string(r) + "b"} {
			if checkClaimedName(name) == nil {
				require.True(t, record.IsActorName([]byte("oidc:"+name)), "%U", r)
			}
		}
	}
	for _, none := range []string{"", " a", "a ", "a\x00", "a\nb", "a\u202eb", "a\u200b", "a\u00a0b", "\xff", strings.Repeat("a", 326)} {
		require.False(t, record.IsActorName([]byte(none)), "%q", none)
	}
}
