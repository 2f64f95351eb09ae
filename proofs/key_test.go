package proofs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParseKeys checks that ParseVerifier accepts a key only in canonical form, and that ParseSigner
// returns either a key that can be parsed again or ErrMalformed.
func FuzzParseKeys(f *testing.F) {
	signer := testSigner(f, testOrigin, 1)
	f.Add(signer.Secret())
	f.Add(signer.Verifier().String())
	f.Add("PRIVATE+KEY+log+00000000+AQ==")
	f.Add("log+00000000+AQ==")
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := ParseVerifier(text); err == nil {
			require.Equal(t, text, v.String())
			require.NotEmpty(t, v.Name())
		} else {
			require.ErrorIs(t, err, ErrMalformed)
		}
		s, err := ParseSigner(text)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		again, err := ParseSigner(s.Secret())
		require.NoError(t, err)
		require.Equal(t, s.Verifier().String(), again.Verifier().String())
	})
}

// FuzzNewReceipt checks that NewReceipt returns either a receipt that can be parsed again or
// ErrMalformed.
func FuzzNewReceipt(f *testing.F) {
	for _, entry := range newTestLog(f, 3).entries {
		f.Add(entry)
	}
	f.Add(AppendEntry(nil, Hash{}, []byte(`{"kind":"k","ledger":"l","seq":18446744073709551615,"time":""}`)))
	f.Fuzz(func(t *testing.T, entry []byte) {
		r, err := NewReceipt(entry)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		again, err := ParseReceipt(r.AppendJSON(nil))
		require.NoError(t, err, "%q", entry)
		require.Equal(t, r, again)
	})
}
