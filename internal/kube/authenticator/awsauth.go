package authenticator

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/document"
	"github.com/coracle-eks/coracle/internal/kube/awsauth"
)

// awsAuth is the content of the ConfigMap kube-system/aws-auth.
// https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html
type awsAuth struct {
	roles    map[string]mapping // by lower-case ARN
	users    map[string]mapping
	accounts map[string]bool
}

// mapping is the Kubernetes user behind an IAM principal; Username and Groups are templates.
type mapping struct {
	Username string
	Groups   []string
}

// awsAuthEntry is one element of mapRoles or mapUsers. Its keys are read whatever their case.
type awsAuthEntry struct {
	RoleARN  string          `json:"rolearn"`
	UserARN  string          `json:"userarn"`
	SSO      json.RawMessage `json:"sso"`
	Username string          `json:"username"`
	Groups   []string        `json:"groups"`
}

// A ConfigMap has room for a hundred thousand mistakes. The log gets the first of them, each in short.
const (
	maxReports = 50
	maxReport  = 1000 // bytes
)

// parseAWSAuth reads the ConfigMap's data as aws-iam-authenticator does: what is malformed is
// reported in errs and left out, everything else counts. The keys of the ConfigMap itself are
// case-sensitive. Of two entries for one ARN the later counts.
func parseAWSAuth(data map[string]string) (parsed *awsAuth, errs []error) {
	parsed = &awsAuth{roles: map[string]mapping{}, users: map[string]mapping{}, accounts: map[string]bool{}}
	report := func(where string, err error) {
		if text := err.Error(); len(text) > maxReport {
			err = errors.New(strings.ToValidUTF8(text[:maxReport], "") + " ...")
		}
		if len(errs) < maxReports {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
		}
	}
	for _, section := range []struct {
		key, field string
		into       map[string]mapping
		arn        func(awsAuthEntry) string
	}{
		{"mapUsers", "userarn", parsed.users, func(e awsAuthEntry) string { return e.UserARN }},
		{"mapRoles", "rolearn", parsed.roles, func(e awsAuthEntry) string { return e.RoleARN }},
	} {
		entries, err := parseList(data[section.key])
		if err != nil {
			report(section.key, err)
		}
		for i, raw := range entries {
			var e awsAuthEntry
			err := json.Unmarshal(raw, &e)
			arn := section.arn(e)
			switch {
			case err != nil:
			case len(e.SSO) > 0 && string(e.SSO) != "null":
				err = errors.New("sso is not supported; give the rolearn of the permission set's role without its path")
			case arn == "":
				err = fmt.Errorf("value for %s must be supplied", section.field)
			}
			if err != nil {
				report(fmt.Sprintf("%s[%d]", section.key, i), err)
				continue
			}
			section.into[strings.ToLower(arn)] = mapping{Username: e.Username, Groups: e.Groups}
		}
	}
	if accounts := data["mapAccounts"]; !isBlank(accounts) {
		var list []string
		err := awsauth.CheckSize(accounts)
		if err == nil {
			err = document.CheckYAML([]byte(accounts))
		}
		if err == nil {
			// This YAML library gives a number's digits to a string, leading zeros included.
			err = yamlv2.Unmarshal([]byte(accounts), &list)
		}
		if err != nil {
			report("mapAccounts", err)
		}
		for _, account := range list {
			parsed.accounts[account] = true
		}
	}
	return parsed, errs
}

func parseList(text string) ([]json.RawMessage, error) {
	if err := awsauth.CheckSize(text); err != nil {
		return nil, err
	}
	if isBlank(text) {
		return nil, nil
	}
	if err := document.CheckYAML([]byte(text)); err != nil {
		return nil, err
	}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, fmt.Errorf("a list of mappings is expected: %w", err)
	}
	return entries, nil
}

// isBlank reports whether the value is one of those that people leave behind for an empty list.
func isBlank(text string) bool {
	switch strings.TrimSpace(text) {
	case "", "``", `""`, "''":
		return true
	}
	return false
}

// findMapping returns the mapping of an identity. An account in mapAccounts maps each of its principals to a user named
// after the principal's ARN, without groups.
func (m *awsAuth) findMapping(id Identity) (mapping, bool) {
	key := strings.ToLower(id.CanonicalARN)
	if found, ok := m.roles[key]; ok {
		return found, true
	}
	if found, ok := m.users[key]; ok {
		return found, true
	}
	if m.accounts[id.AccountID] {
		return mapping{Username: id.CanonicalARN}, true
	}
	return mapping{}, false
}
