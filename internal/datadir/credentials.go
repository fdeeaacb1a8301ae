package datadir

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// Credentials are the root access key of an account.
type Credentials struct {
	AccessKeyID     string
	SecretAccessKey string
}

// ReadCredentials returns the root access keys by account; none when there is no file yet.
func (d Dir) ReadCredentials() (map[string]Credentials, error) {
	data, err := os.ReadFile(d.CredentialsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]Credentials{}, nil
	}
	if err != nil {
		return nil, d.explain(err)
	}
	all := map[string]Credentials{}
	account := ""
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if section, ok := strings.CutPrefix(line, "["); ok {
			account = strings.TrimSuffix(section, "]")
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || account == "" {
			return nil, fmt.Errorf("%s:%d: expected [ACCOUNT] or NAME = VALUE, found %q", d.CredentialsFile(), n, line)
		}
		c := all[account]
		switch strings.TrimSpace(name) {
		case "aws_access_key_id":
			c.AccessKeyID = strings.TrimSpace(value)
		case "aws_secret_access_key":
			c.SecretAccessKey = strings.TrimSpace(value)
		default:
			return nil, fmt.Errorf("%s:%d: unknown name %q", d.CredentialsFile(), n, strings.TrimSpace(name))
		}
		all[account] = c
	}
	return all, lines.Err()
}

// WriteCredentials stores the root access keys, readable by the directory's owner only. The file serves as
// AWS_SHARED_CREDENTIALS_FILE, with account numbers as profiles.
func (d Dir) WriteCredentials(all map[string]Credentials) error {
	var b bytes.Buffer
	b.WriteString("# Root access keys of the accounts of this coracle. Keep them secret.\n")
	for _, account := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "\n[%s]\naws_access_key_id = %s\naws_secret_access_key = %s\n", account,
			all[account].AccessKeyID, all[account].SecretAccessKey)
	}
	return d.Write(d.CredentialsFile(), b.Bytes(), 0o600)
}
