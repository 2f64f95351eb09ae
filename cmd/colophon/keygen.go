package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/safefile"
	"colophon/ledger"
	"colophon/proofs"
)

func newKeygen(c *cli.Console) *cobra.Command {
	var origin, out string
	command := &cobra.Command{
		Use:   "keygen",
		Short: "Create a signing key",
		Long: `Create an Ed25519 signing key and print its verifier key. Anyone who has the signing
key can sign as the ledger.

The origin is the name that a ledger signs under. It never changes. Use a URL without a
scheme, under a domain that you own. To use the key for a new ledger NAME, write it to
keys/NAME.key.new in the data folder before you create the ledger.`,
		Example: `  colophon keygen --origin ledger.example.org/generations --out generations.key`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			key := proofs.GenerateKey()
			if origin == "" {
				origin = "colophon.invalid/" + key.Fingerprint()
			}
			if err := ledger.CheckOrigin(origin); err != nil {
				return cli.ExitErrorf(cli.ExitUsage, "--origin %q: %w", origin, err)
			}
			signer, err := key.Signer(origin)
			if err != nil {
				return err
			}
			if out == "" {
				_, err := fmt.Fprintf(c.Out, "signing key (secret)  %s\nverifier key          %s\n", signer.Secret(), signer.Verifier())
				return err
			}
			if err := writeSecret(out, signer.Secret()); err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.Out, signer.Verifier())
			return err
		},
	}
	command.Flags().StringVar(&origin, "origin", "", "`name` that the key signs under; the default contains the key's fingerprint")
	command.Flags().StringVar(&out, "out", "", "`file` for the signing key; it must not exist; without --out, keygen prints the signing key")
	return command
}

// writeSecret writes a secret to a new file that only its owner can read. The file is durable when
// writeSecret returns.
func writeSecret(path, secret string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return cli.ExitErrorf(cli.ExitUsage, "%s already exists, and keygen does not overwrite it; choose another file", path)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(secret + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := safefile.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("syncing the folder of %s: %w", path, err)
	}
	return nil
}
