package cloudinit

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/document"
)

// config is the merged cloud-config, as far as it is applied.
type config struct {
	Hostname          string            `json:"hostname"`
	FQDN              string            `json:"fqdn"`
	WriteFiles        []file            `json:"write_files"`
	Bootcmd           []command         `json:"bootcmd"`
	Runcmd            []command         `json:"runcmd"`
	SSHAuthorizedKeys []string          `json:"ssh_authorized_keys"`
	Users             []json.RawMessage `json:"users"`
	Groups            json.RawMessage   `json:"groups"`
	DisableRoot       *bool             `json:"disable_root"`
	others            []string          // keys that are not applied
}

type file struct {
	Path        string          `json:"path"`
	Content     string          `json:"content"`
	Encoding    string          `json:"encoding"`
	Owner       string          `json:"owner"`
	Permissions json.RawMessage `json:"permissions"`
	Append      bool            `json:"append"`
	Defer       bool            `json:"defer"`
}

// command is a line for the shell, or a list of arguments.
type command struct {
	line string
	argv []string
}

func (c *command) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &c.line) == nil {
		return nil
	}
	var words []any
	if err := json.Unmarshal(data, &words); err != nil {
		return fmt.Errorf("a command is a string or a list, not %s", data)
	}
	for _, w := range words {
		c.argv = append(c.argv, fmt.Sprint(w))
	}
	return nil
}

// shellLine returns the command as a line of a script.
func (c command) shellLine() string {
	if c.argv == nil {
		return c.line
	}
	quoted := make([]string, len(c.argv))
	for i, a := range c.argv {
		quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// applied are the keys that config has; harmless those that change nothing on a machine like this.
var (
	applied = []string{"hostname", "fqdn", "write_files", "bootcmd", "runcmd", "ssh_authorized_keys", "users",
		"groups", "disable_root"}
	harmless = []string{"preserve_hostname", "manage_etc_hosts", "output", "final_message", "repo_update",
		"repo_upgrade", "ssh_pwauth", "locale", "timezone", "growpart", "merge_how", "merge_type"}
)

// mergeConfigs puts cloud-config documents together; a later one's key takes the place of an earlier one's.
func mergeConfigs(documents [][]byte) (config, error) {
	merged := map[string]json.RawMessage{}
	var c config
	for _, d := range documents {
		if err := document.CheckYAML(d); err != nil {
			return c, fmt.Errorf("Failed loading yaml blob. Invalid format: %w", err)
		}
		asJSON, err := yaml.YAMLToJSON(d)
		if err != nil {
			return c, fmt.Errorf("Failed loading yaml blob. Invalid format: %w", err)
		}
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(asJSON, &keys); err != nil {
			return c,
				fmt.Errorf("Failed loading yaml blob. Yaml load allows dict root types, but got something else: %w",
					err)
		}
		for k, v := range keys {
			merged[k] = v
		}
	}
	for k := range merged {
		if !slices.Contains(applied, k) && !slices.Contains(harmless, k) {
			c.others = append(c.others, k)
		}
	}
	slices.Sort(c.others)
	data, err := json.Marshal(merged)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("cloud-config: %w", err)
	}
	return c, nil
}

// writeFile writes a file of write_files below root.
func (f file) writeFile(root string) error {
	content := []byte(f.Content)
	encoding := strings.ToLower(f.Encoding)
	if strings.Contains(encoding, "b64") || strings.Contains(encoding, "base64") {
		plain, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(f.Content), ""))
		if err != nil {
			return fmt.Errorf("write_files %s: %w", f.Path, err)
		}
		content = plain
	}
	if strings.Contains(encoding, "gz") {
		plain, err := decompress(content, maxUserData)
		if err != nil {
			return fmt.Errorf("write_files %s: %w", f.Path, err)
		}
		content = plain
	}
	if !filepath.IsAbs(f.Path) {
		return fmt.Errorf("write_files: the path %q is not absolute", f.Path)
	}
	mode := os.FileMode(0o644)
	if text := strings.Trim(string(f.Permissions), `"`); text != "" && text != "null" {
		base := 8
		if !strings.HasPrefix(string(f.Permissions), `"`) {
			base = 10 // YAML has read 0644 as an octal number
		}
		n, err := strconv.ParseUint(strings.TrimPrefix(text, "0o"), base, 32)
		if err != nil {
			return fmt.Errorf("write_files %s: permissions %s: %w", f.Path, text, err)
		}
		mode = os.FileMode(n)
	}
	path := filepath.Join(root, f.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write_files: %w", err)
	}
	flags := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if f.Append {
		flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	out, err := os.OpenFile(path, flags, mode)
	if err != nil {
		return fmt.Errorf("write_files: %w", err)
	}
	_, err = out.Write(content)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		return fmt.Errorf("write_files: %w", err)
	}
	if f.Owner != "" {
		name, group, _ := strings.Cut(f.Owner, ":")
		uid, gid := 0, -1
		u, err := user.Lookup(name)
		if err != nil {
			return fmt.Errorf("write_files %s: owner: %w", f.Path, err)
		}
		uid, _ = strconv.Atoi(u.Uid)
		if group != "" {
			g, err := user.LookupGroup(group)
			if err != nil {
				return fmt.Errorf("write_files %s: owner: %w", f.Path, err)
			}
			gid, _ = strconv.Atoi(g.Gid)
		}
		if err := os.Chown(path, uid, gid); err != nil {
			return fmt.Errorf("write_files: %w", err)
		}
	}
	return nil
}
