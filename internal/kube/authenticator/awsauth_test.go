package authenticator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseAWSAuth(t *testing.T) {
	t.Parallel()
	const role = "arn:aws:iam::111122223333:role/nodes"
	node := map[string]mapping{role: {"system:node:{{EC2PrivateDNSName}}", []string{"system:bootstrappers",
		"system:nodes"}}}
	const nodeYAML = "- rolearn: " + role +
		"\n  username: system:node:{{EC2PrivateDNSName}}\n  groups:\n  - system:bootstrappers\n  - system:nodes\n"
	for _, test := range []struct {
		name     string
		data     map[string]string
		roles    map[string]mapping
		users    map[string]mapping
		accounts map[string]bool
		errors   []string // parts of the reports, in order
	}{
		{name: "none"},
		{name: "more than a ConfigMap has", data: map[string]string{
			"mapUsers": "[" + strings.Repeat("a,", 1<<19) + "]", "mapRoles": "[" + strings.Repeat("a,", 1<<19) + "]",
			"mapAccounts": "[" + strings.Repeat("a,", 1<<19) + "]",
		}, errors: []string{"mapUsers: aws-auth is larger than 1 MiB", "mapRoles: aws-auth is larger than 1 MiB",
			"mapAccounts: aws-auth is larger than 1 MiB"}},
		{name: "more values than are parsed", data: map[string]string{
			"mapUsers": "[" + strings.Repeat("a,", 1<<18) + "]", "mapRoles": strings.Repeat("- a\n", 1<<17),
			"mapAccounts": strings.Repeat("- 1\n", 1<<17),
		}, errors: []string{"mapUsers: aws-auth has more than 20000 values", "mapRoles: aws-auth has more than 20000",
			"mapAccounts: aws-auth has more than 20000"}},
		{name: "as EKS writes it", data: map[string]string{"mapRoles": nodeYAML}, roles: node},
		{
			name: "every section",
			data: map[string]string{
				"mapRoles": nodeYAML,
				"mapUsers": "- userarn: arn:aws:iam::111122223333:user/ops/Alice\n  username: alice\n  groups: " +
					"[admins]\n",
				"mapAccounts": "- \"444455556666\"\n- 012345678901\n- 777788889999\n",
			},
			roles:    node,
			users:    map[string]mapping{"arn:aws:iam::111122223333:user/ops/alice": {"alice", []string{"admins"}}},
			accounts: map[string]bool{"444455556666": true, "012345678901": true, "777788889999": true},
		},
		{name: "JSON", data: map[string]string{"mapRoles": `[{"rolearn":"` + role +
			`","username":"x","groups":["g"]}]`}, roles: map[string]mapping{role: {"x", []string{"g"}}}},
		{name: "keys in any case", data: map[string]string{"mapRoles": strings.NewReplacer("rolearn", "RoleARN",
			"username", "uSeRnAmE", "groups", "GROUPS").Replace(nodeYAML)}, roles: node},
		{name: "ARN in any case", data: map[string]string{"mapRoles": strings.Replace(nodeYAML, "role/nodes",
			"Role/NODES", 1)}, roles: node},
		{name: "sections in another case do not count", data: map[string]string{"maproles": nodeYAML,
			"MAPUSERS": nodeYAML}},
		{name: "empty sections", data: map[string]string{"mapRoles": "", "mapUsers": " \"\"\n", "mapAccounts": "''"}},
		{name: "sections of back quotes and of nothing", data: map[string]string{"mapRoles": "``", "mapUsers": "[]",
			"mapAccounts": "[]\n"}},
		{name: "null", data: map[string]string{"mapRoles": "null"}},
		{name: "neither user name nor groups", data: map[string]string{"mapRoles": "- rolearn: " + role},
			roles: map[string]mapping{role: {}}},
		{name: "more keys than are known", data: map[string]string{"mapRoles": "- rolearn: " + role +
			"\n  username: x\n  userid: AROA\n  comment: why\n"}, roles: map[string]mapping{role: {Username: "x"}}},
		{
			name: "the later of two",
			data: map[string]string{"mapRoles": "- rolearn: " + role + "\n  username: first\n- rolearn: " +
				strings.ToUpper(role) + "\n  username: second\n"},
			roles: map[string]mapping{role: {Username: "second"}},
		},
		{
			name:  "group list indented too far is one long group",
			data:  map[string]string{"mapRoles": "- rolearn: " + role + "\n  username: x\n  groups:\n  - a\n    - b\n"},
			roles: map[string]mapping{role: {"x", []string{"a - b"}}},
		},
		{
			name: "no ARN",
			data: map[string]string{"mapRoles": "- username: x\n" + nodeYAML, "mapUsers": "- rolearn: " + role +
				"\n  username: x\n"},
			roles: node,
			errors: []string{"mapUsers[0]: value for userarn must be supplied",
				"mapRoles[0]: value for rolearn must be supplied"},
		},
		{
			name: "an entry repeated by its anchor",
			data: map[string]string{"mapRoles": "- &node\n  rolearn: " + role +
				"\n  username: x\n- <<: *node\n  rolearn: " + role + "2\n"},
			roles: map[string]mapping{role: {Username: "x"}, role + "2": {Username: "x"}},
		},
		{
			name: "aliases that make it gigabytes",
			data: map[string]string{
				"mapRoles": "- rolearn: &a " + strings.Repeat("x", 4000) + "\n  groups: [" + strings.Repeat("*a,",
					10_000) + "]\n",
				"mapAccounts": "[&a [" + strings.Repeat("x", 600) + "], " + strings.Repeat("*a,", 9_900) + "]",
				"mapUsers":    "- userarn: arn:aws:iam::111122223333:user/alice\n  username: alice\n",
			},
			users: map[string]mapping{"arn:aws:iam::111122223333:user/alice": {Username: "alice"}},
			errors: []string{"mapRoles: line 2: the document is larger than 4 MiB",
				"mapAccounts: line 1: the document is larger than 4 MiB"},
		},
		{
			name: "groups that are no list",
			data: map[string]string{
				"mapRoles": "- rolearn: arn:aws:iam::111122223333:role/x\n  groups: system:masters\n" + nodeYAML},
			roles:  node,
			errors: []string{"mapRoles[0]: json: cannot unmarshal string"},
		},
		{
			name: "user name that is a number",
			data: map[string]string{"mapRoles": nodeYAML +
				"- rolearn: arn:aws:iam::111122223333:role/x\n  username: 7\n"},
			roles:  node,
			errors: []string{"mapRoles[1]: json: cannot unmarshal number"},
		},
		{
			name:  "entry that is no mapping",
			data:  map[string]string{"mapRoles": "- just text\n- null\n" + nodeYAML},
			roles: node,
			errors: []string{"mapRoles[0]: json: cannot unmarshal string",
				"mapRoles[1]: value for rolearn must be supplied"},
		},
		{
			name: "section that is no list",
			data: map[string]string{"mapRoles": "rolearn: " + role,
				"mapUsers": "- userarn: arn:aws:iam::111122223333:user/a\n  username: a\n"},
			users:  map[string]mapping{"arn:aws:iam::111122223333:user/a": {Username: "a"}},
			errors: []string{"mapRoles: a list of mappings is expected"},
		},
		{
			name: "tab in the YAML",
			data: map[string]string{"mapRoles": "- rolearn: " + role + "\n\tusername: x\n",
				"mapAccounts": "- 444455556666"},
			errors: []string{"mapRoles: "}, accounts: map[string]bool{"444455556666": true},
		},
		{
			name:   "accounts that are no list",
			data:   map[string]string{"mapRoles": nodeYAML, "mapAccounts": "a: b"},
			roles:  node,
			errors: []string{"mapAccounts: "},
		},
		{
			name: "sso",
			data: map[string]string{
				"mapRoles": "- sso:\n    permissionSetName: Admins\n    accountID: \"111122223333\"\n  username: x\n"},
			errors: []string{"mapRoles[0]: sso is not supported"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, errs := parseAWSAuth(test.data)
			none := func(m map[string]mapping) map[string]mapping {
				if m == nil {
					return map[string]mapping{}
				}
				return m
			}
			accounts := test.accounts
			if accounts == nil {
				accounts = map[string]bool{}
			}
			want := &awsAuth{roles: none(test.roles), users: none(test.users), accounts: accounts}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(awsAuth{})); diff != "" {
				t.Errorf("parsed (-want +got):\n%s", diff)
			}
			if len(errs) != len(test.errors) {
				t.Fatalf("reports %v, want %q", errs, test.errors)
			}
			for i, err := range errs {
				if !strings.HasPrefix(err.Error(), test.errors[i]) {
					t.Errorf("report %d is %q, want %q", i, err, test.errors[i])
				}
			}
		})
	}
}

func TestMistakesInAWSAuthAreReportedInShort(t *testing.T) {
	t.Parallel()
	lists := "[" + strings.Repeat("[],", 1000) + "]"
	_, errs := parseAWSAuth(map[string]string{"mapUsers": strings.Repeat("- {}\n", 1000), "mapAccounts": lists})
	if len(errs) != maxReports {
		t.Errorf("%d mistakes are reported, not %d", len(errs), maxReports)
	}
	_, errs = parseAWSAuth(map[string]string{"mapAccounts": lists})
	if len(errs) != 1 || len(errs[0].Error()) > maxReport+100 || !strings.HasSuffix(errs[0].Error(), " ...") {
		t.Errorf("the report of a thousand mistakes is %v", errs)
	}
}
