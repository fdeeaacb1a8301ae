package datadir

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
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
	err = parseSections(d.CredentialsFile(), data, "ACCOUNT", func(account, name, value string) bool {
		c := all[account]
		known := c.set(name, value)
		all[account] = c
		return known
	})
	return all, err
}

// set sets what a line of a file has; it reports whether there is a name like that.
func (c *Credentials) set(name, value string) bool {
	switch name {
	case "aws_access_key_id":
		c.AccessKeyID = value
	case "aws_secret_access_key":
		c.SecretAccessKey = value
	default:
		return false
	}
	return true
}

// parseSections reads a file in the format of ~/.aws/credentials. set reports whether it knows a name.
func parseSections(file string, data []byte, what string, set func(section, name, value string) bool) error {
	section := ""
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if begins, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(begins, "]")
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || section == "" {
			return fmt.Errorf("%s:%d: expected [%s] or NAME = VALUE", file, n, what)
		}
		if !set(section, strings.TrimSpace(name), strings.TrimSpace(value)) {
			return fmt.Errorf("%s:%d: unknown name %q", file, n, strings.TrimSpace(name))
		}
	}
	return lines.Err()
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

// ForwardCredentials are those of an endpoint of the operator's, to which requests of a service are forwarded.
type ForwardCredentials struct {
	Credentials
	SessionToken string
	Region       string // of signatures; empty for that of the request
}

// ReadForwardCredentials returns the credentials of the endpoint of a service for an account, from the file of them,
// which is in the format of ~/.aws/credentials. Their section is SERVICE.ACCOUNT, and for the account that the first
// start made also SERVICE, or default. It returns fs.ErrNotExist when there are none.
func (d Dir) ReadForwardCredentials(service, account string, first bool) (ForwardCredentials, error) {
	file := d.ForwardCredentialsFile()
	in, err := os.Open(file)
	if err != nil {
		return ForwardCredentials{}, err
	}
	defer in.Close()
	if info, err := in.Stat(); err != nil {
		return ForwardCredentials{}, err
	} else if info.Mode().Perm()&0o077 != 0 {
		return ForwardCredentials{}, fmt.Errorf("%s may be read by others: chmod 600 %s", file, file)
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return ForwardCredentials{}, err
	}
	all := map[string]ForwardCredentials{}
	err = parseSections(file, data, "SERVICE", func(section, name, value string) bool {
		c := all[section]
		known := true
		switch name {
		case "aws_session_token":
			c.SessionToken = value
		case "region":
			c.Region = value
		default:
			known = c.set(name, value)
		}
		all[section] = c
		return known
	})
	if err != nil {
		return ForwardCredentials{}, err
	}
	sections := []string{service + "." + account}
	if first {
		sections = append(sections, service, "default")
	}
	for _, section := range sections {
		c, ok := all[section]
		if !ok {
			continue
		}
		if c.AccessKeyID == "" || c.SecretAccessKey == "" {
			return c, fmt.Errorf("%s: [%s] lacks aws_access_key_id or aws_secret_access_key", file, section)
		}
		return c, nil
	}
	return ForwardCredentials{}, fmt.Errorf("%s: no section [%s]: %w", file, sections[0], fs.ErrNotExist)
}
