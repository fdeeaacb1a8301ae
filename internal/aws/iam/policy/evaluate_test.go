package policy

import (
	"fmt"
	"strings"
	"testing"
)

var (
	alice = Principal{Type: User, Account: "111122223333", ARN: "arn:aws:iam::111122223333:user/alice",
		IAMARN: "arn:aws:iam::111122223333:user/alice", ID: "AIDAALICE000000000001"}
	nodeRole = Principal{Type: AssumedRole, Account: "111122223333",
		ARN: "arn:aws:sts::111122223333:assumed-role/node/i-1", IAMARN: "arn:aws:iam::111122223333:role/path/node",
		ID: "AROANODE0000000000001"}
	root = Principal{Type: Account, Account: "111122223333", ARN: "arn:aws:iam::111122223333:root",
		IAMARN: "arn:aws:iam::111122223333:root", ID: "111122223333"}
	eks = Principal{Type: Service, Name: "eks.amazonaws.com"}
	pod = Principal{Type: WebIdentity,
		Name: "arn:aws:iam::111122223333:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/X"}
	bob = Principal{Type: User, Account: "444455556666", ARN: "arn:aws:iam::444455556666:user/bob",
		IAMARN: "arn:aws:iam::444455556666:user/bob", ID: "AIDABOB00000000000001"}
	guest = Principal{Type: FederatedUser, Account: "111122223333",
		ARN:    "arn:aws:sts::111122223333:federated-user/guest",
		IAMARN: "arn:aws:iam::111122223333:user/alice", ID: "AIDAALICE000000000001"}
	bobs = Principal{Type: Account, Account: "444455556666", ARN: "arn:aws:iam::444455556666:root",
		IAMARN: "arn:aws:iam::444455556666:root", ID: "444455556666"}
)

const cluster = "arn:aws:eks:us-east-1:111122223333:cluster/ironman-2022"

// statement wraps one statement in a document.
func statement(s string) string {
	return `{"Version": "2012-10-17", "Statement": ` + s + `}`
}

func sources(tb testing.TB, kind Kind, texts ...string) []Source {
	tb.Helper()
	var all []Source
	for _, text := range texts {
		if text == "" {
			continue
		}
		d, err := Parse(kind, text)
		if err != nil {
			tb.Fatalf("%s: %v", text, err)
		}
		all = append(all, Source{Document: d})
	}
	return all
}

func TestIdentityPolicies(t *testing.T) {
	t.Parallel()
	const allowAll = `{"Effect": "Allow", "Action": "*", "Resource": "*"}`
	for _, test := range []struct {
		name       string
		statements string
		action     string // eks:DescribeCluster unless given
		resource   string // cluster unless given
		keys       Context
		want       Verdict
	}{
		{name: "nothing allows", statements: `{"Effect": "Allow", "Action": "eks:ListClusters", "Resource": "*"}`,
			want: ImplicitDeny},
		{name: "exact action", statements: `{"Effect": "Allow", "Action": "eks:DescribeCluster", "Resource": "*"}`,
			want: Allowed},
		{name: "actions ignore case",
			statements: `{"Effect": "Allow", "Action": "EKS:describecluster", "Resource": "*"}`, want: Allowed},
		{name: "action with star", statements: `{"Effect": "Allow", "Action": "eks:Describe*", "Resource": "*"}`,
			want: Allowed},
		{name: "action with star in the middle",
			statements: `{"Effect": "Allow", "Action": "eks:*Clust*r", "Resource": "*"}`, want: Allowed},
		{name: "action with question mark",
			statements: `{"Effect": "Allow", "Action": "eks:?escribeCluster", "Resource": "*"}`, want: Allowed},
		{name: "question mark is one character",
			statements: `{"Effect": "Allow", "Action": "eks:?DescribeCluster", "Resource": "*"}`, want: ImplicitDeny},
		{name: "list of actions", statements: `{"Effect": "Allow", "Action": ["s3:*", "eks:*"], "Resource": ["*"]}`,
			want: Allowed},
		{name: "all actions", statements: allowAll, want: Allowed},
		{name: "prefix of the action is not the action",
			statements: `{"Effect": "Allow", "Action": "eks:Describe", "Resource": "*"}`, want: ImplicitDeny},
		{name: "other service", statements: `{"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}`,
			want: ImplicitDeny},
		{name: "NotAction leaves out", statements: `{"Effect": "Allow", "NotAction": "eks:*", "Resource": "*"}`,
			want: ImplicitDeny},
		{name: "NotAction lets in", statements: `{"Effect": "Allow", "NotAction": ["iam:*", "sts:*"], "Resource": "*"}`,
			want: Allowed},
		{name: "deny wins over allow", statements: `[` + allowAll +
			`, {"Effect": "Deny", "Action": "eks:*", "Resource": "*"}]`, want: ExplicitDeny},
		{name: "deny wins in any order", statements: `[{"Effect": "Deny", "Action": "eks:*", "Resource": "*"}, ` +
			allowAll + `]`, want: ExplicitDeny},
		{name: "deny of something else", statements: `[` + allowAll +
			`, {"Effect": "Deny", "Action": "eks:DeleteCluster", "Resource": "*"}]`, want: Allowed},
		{name: "deny with NotAction", statements: `[` + allowAll +
			`, {"Effect": "Deny", "NotAction": "iam:*", "Resource": "*"}]`, want: ExplicitDeny},

		{name: "exact resource", statements: `{"Effect": "Allow", "Action": "eks:*", "Resource": "` + cluster + `"}`,
			want: Allowed},
		{name: "resources heed case",
			statements: `{"Effect": "Allow", "Action": "eks:*", "Resource": "arn:aws:eks:us-east-1:111122223333:cluster/Ironman-2022"}`, want: ImplicitDeny},
		{name: "resource with star",
			statements: `{"Effect": "Allow", "Action": "eks:*", "Resource": "arn:aws:eks:*:*:cluster/ironman-*"}`,
			want:       Allowed},
		{name: "star in one part stays there",
			statements: `{"Effect": "Allow", "Action": "eks:*", "Resource": "arn:aws:eks:*:cluster/ironman-2022:x:y"}`,
			want:       ImplicitDeny},
		{name: "region part",
			statements: `{"Effect": "Allow", "Action": "eks:*", "Resource": "arn:aws:eks:us-*-1:111122223333:*"}`,
			want:       Allowed},
		{name: "other region",
			statements: `{"Effect": "Allow", "Action": "eks:*", "Resource": "arn:aws:eks:eu-west-1:111122223333:*"}`,
			want:       ImplicitDeny},
		{name: "question marks in a resource",
			statements: `{"Effect": "Allow", "Action": "eks:*", "Resource": "arn:aws:eks:us-east-1:111122223333:cluster/ironman-????"}`, want: Allowed},
		{name: "star in the resource part reaches over colons",
			statements: `{"Effect": "Allow", "Action": "logs:*", "Resource": "arn:aws:logs:us-east-1:111122223333:log-group:*"}`,
			action:     "logs:GetLogEvents",
			resource:   "arn:aws:logs:us-east-1:111122223333:log-group:/aws/eks/x:log-stream:y", want: Allowed},
		{name: "shortened ARN", statements: `{"Effect": "Allow", "Action": "eks:*", "Resource": "arn:aws:eks:*"}`,
			want: Allowed},
		{name: "action without resource needs a star",
			statements: `{"Effect": "Allow", "Action": "eks:*", "Resource": "` + cluster + `"}`,
			action:     "eks:ListClusters", resource: "*", want: ImplicitDeny},
		{name: "action without resource", statements: allowAll, action: "eks:ListClusters", resource: "*",
			want: Allowed},
		{name: "NotResource leaves out",
			statements: `{"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:eks:*:*:cluster/ironman-2022"}`,
			want:       ImplicitDeny},
		{name: "NotResource lets in",
			statements: `{"Effect": "Allow", "Action": "*", "NotResource": ["arn:aws:eks:*:*:cluster/a", "arn:aws:eks:*:*:cluster/b"]}`, want: Allowed},
		{name: "deny all but", statements: `[` + allowAll + `, {"Effect": "Deny", "Action": "eks:*", "NotResource": "` +
			cluster + `"}]`, want: Allowed},

		{name: "variable in a resource",
			statements: `{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:eks:*:*:cluster/${aws:username}-*"}`,
			keys:       Context{"aws:username": {"ironman"}}, want: Allowed},
		{name: "variable of another user",
			statements: `{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:eks:*:*:cluster/${aws:username}-*"}`,
			keys:       Context{"aws:username": {"hulk"}}, want: ImplicitDeny},
		{name: "variable without a value",
			statements: `{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:eks:*:*:cluster/${aws:username}*"}`,
			want:       ImplicitDeny},
		{name: "variable with a default",
			statements: `{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:eks:*:*:cluster/${aws:PrincipalTag/team, 'ironman'}-2022"}`, want: Allowed},
		{name: "default not used",
			statements: `{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:eks:*:*:cluster/${aws:PrincipalTag/team, 'ironman'}-2022"}`, keys: Context{"aws:PrincipalTag/team": {"hulk"}}, want: ImplicitDeny},
		{name: "variable in the account part",
			statements: `{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:eks:*:${aws:PrincipalAccount}:cluster/*"}`, keys: Context{"aws:principalaccount": {"111122223333"}}, want: Allowed},
		{name: "wildcards in a value are text",
			statements: `{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:eks:*:*:cluster/${aws:username}"}`,
			keys:       Context{"aws:username": {"*"}}, want: ImplicitDeny},
		{name: "bytes that stand for wildcards are text",
			statements: `{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:eks:*:*:cluster/${aws:username}"}`,
			keys:       Context{"aws:username": {"\xff"}}, want: ImplicitDeny},
		{name: "escaped star",
			statements: `{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:eks:*:*:cluster/${*}"}`,
			want:       ImplicitDeny},
		{name: "escaped star matches a star",
			statements: `{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:s3:::b/${*}${?}${$}"}`,
			resource:   "arn:aws:s3:::b/*?$", want: Allowed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := &Request{Action: or(test.action, "eks:DescribeCluster"), Resource: or(test.resource, cluster),
				Principal: alice, Keys: test.keys}
			d := Evaluate(r, &Policies{Identity: sources(t, Identity, statement(test.statements))})
			if d.Verdict != test.want {
				t.Errorf("got %s %s, want %s", d.Verdict, d.Reason(), test.want)
			}
			if (d.Statement != nil) != (test.want != ImplicitDeny) {
				t.Errorf("the decision names the statement %v", d.Statement)
			}
		})
	}
}

func TestVariablesNeedTheNewVersion(t *testing.T) {
	t.Parallel()
	const old = `{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "arn:aws:s3:::${aws:username}"}}`
	p := &Policies{Identity: sources(t, Identity, old)}
	keys := Context{"aws:username": {"alice"}}
	if d := Evaluate(&Request{Action: "s3:GetObject", Resource: "arn:aws:s3:::alice", Principal: alice, Keys: keys},
		p); d.Allowed() {
		t.Error("a variable works without \"Version\": \"2012-10-17\"")
	}
	if d := Evaluate(&Request{Action: "s3:GetObject", Resource: "arn:aws:s3:::${aws:username}", Principal: alice,
		Keys: keys}, p); !d.Allowed() {
		t.Error("in the old version a variable is not literal text")
	}
}

func TestHowPoliciesCombine(t *testing.T) {
	t.Parallel()
	allow := statement(`{"Effect": "Allow", "Action": "eks:*", "Resource": "*"}`)
	allowOther := statement(`{"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}`)
	deny := statement(`{"Effect": "Deny", "Action": "eks:*", "Resource": "*"}`)
	names := func(who, effect string) string {
		return statement(`{"Effect": "` + effect + `", "Principal": ` + who + `, "Action": "eks:*", "Resource": "*"}`)
	}
	const (
		account = `{"AWS": "arn:aws:iam::111122223333:root"}`
		user    = `{"AWS": "arn:aws:iam::111122223333:user/alice"}`
		role    = `{"AWS": "arn:aws:iam::111122223333:role/path/node"}`
		session = `{"AWS": "arn:aws:sts::111122223333:assumed-role/node/i-1"}`
		other   = `{"AWS": "444455556666"}`
	)
	for _, test := range []struct {
		name                                  string
		who                                   Principal
		identity, boundary, session, resource string
		elsewhere                             bool // the resource is of account 111122223333, whoever asks
		must                                  bool
		want                                  Verdict
		reason                                string
	}{
		{name: "identity alone", who: alice, identity: allow, want: Allowed},
		{name: "nothing", who: alice, want: ImplicitDeny,
			reason: "because no identity-based policy allows the eks:DescribeCluster action"},
		{name: "denied by identity", who: alice, identity: deny, want: ExplicitDeny,
			reason: "with an explicit deny in an identity-based policy"},
		{name: "boundary agrees", who: alice, identity: allow, boundary: allow, want: Allowed},
		{name: "boundary silent", who: alice, identity: allow, boundary: allowOther, want: ImplicitDeny,
			reason: "because no permissions boundary allows the eks:DescribeCluster action"},
		{name: "boundary denies", who: alice, identity: allow, boundary: deny, want: ExplicitDeny,
			reason: "with an explicit deny in a permissions boundary"},
		{name: "boundary grants nothing", who: alice, boundary: allow, want: ImplicitDeny,
			reason: "because no identity-based policy allows the eks:DescribeCluster action"},
		{name: "session agrees", who: nodeRole, identity: allow, session: allow, want: Allowed},
		{name: "session silent", who: nodeRole, identity: allow, session: allowOther, want: ImplicitDeny,
			reason: "because no session policy allows the eks:DescribeCluster action"},
		{name: "session denies", who: nodeRole, identity: allow, session: deny, want: ExplicitDeny,
			reason: "with an explicit deny in a session policy"},
		{name: "session grants nothing", who: nodeRole, session: allow, want: ImplicitDeny,
			reason: "because no identity-based policy allows the eks:DescribeCluster action"},
		{name: "boundary and session agree", who: nodeRole, identity: allow, boundary: allow, session: allow,
			want: Allowed},

		{name: "resource names the user", who: alice, resource: names(user, "Allow"), want: Allowed},
		{name: "resource names the user past the boundary", who: alice, boundary: allowOther,
			resource: names(user, "Allow"), want: Allowed},
		{name: "resource names the role", who: nodeRole, resource: names(role, "Allow"), want: Allowed},
		{name: "resource names the role, boundary silent", who: nodeRole, boundary: allowOther,
			resource: names(role, "Allow"), want: ImplicitDeny,
			reason: "because no permissions boundary allows the eks:DescribeCluster action"},
		{name: "resource names the role, session silent", who: nodeRole, session: allowOther,
			resource: names(role, "Allow"), want: ImplicitDeny,
			reason: "because no session policy allows the eks:DescribeCluster action"},
		{name: "resource names the session past both", who: nodeRole, boundary: allowOther, session: allowOther,
			resource: names(session, "Allow"), want: Allowed},
		{name: "resource denies the user of a federated session", who: guest, identity: allow, session: allow,
			resource: names(user, "Deny"), want: ExplicitDeny,
			reason: "with an explicit deny in a resource-based policy"},
		{name: "resource denies the ID of the user of a federated session", who: guest, identity: allow, session: allow,
			resource: names(`{"AWS": "AIDAALICE000000000001"}`, "Deny"), want: ExplicitDeny,
			reason: "with an explicit deny in a resource-based policy"},
		{name: "resource names the user of a federated session", who: guest, session: allow,
			resource: names(user, "Allow"), want: Allowed},
		{name: "resource names the user of a federated session, session silent", who: guest, session: allowOther,
			resource: names(user, "Allow"), want: ImplicitDeny,
			reason: "because no session policy allows the eks:DescribeCluster action"},
		{name: "resource names the account", who: alice, resource: names(account, "Allow"), want: ImplicitDeny,
			reason: "because no identity-based policy allows the eks:DescribeCluster action"},
		{name: "resource names the account, identity allows", who: alice, identity: allow,
			resource: names(account, "Allow"), want: Allowed},
		{name: "resource names everyone", who: alice, resource: names(`"*"`, "Allow"), want: Allowed},
		{name: "resource denies", who: alice, identity: allow, resource: names(user, "Deny"), want: ExplicitDeny,
			reason: "with an explicit deny in a resource-based policy"},
		{name: "resource denies the account", who: nodeRole, identity: allow, resource: names(account, "Deny"),
			want: ExplicitDeny, reason: "with an explicit deny in a resource-based policy"},
		{name: "resource names someone else", who: alice, identity: allow, resource: names(role, "Allow"),
			want: Allowed},
		{name: "identity denies what the resource grants", who: alice, identity: deny, resource: names(user, "Allow"),
			want: ExplicitDeny, reason: "with an explicit deny in an identity-based policy"},
		{name: "consent needed and not given", who: alice, identity: allow, resource: names(role, "Allow"), must: true,
			want: ImplicitDeny, reason: "because no resource-based policy allows the eks:DescribeCluster action"},
		{name: "consent needed and given", who: alice, identity: allow, resource: names(account, "Allow"), must: true,
			want: Allowed},

		{name: "other account, both agree", who: bob, identity: allow, resource: names(other, "Allow"), elsewhere: true,
			want: Allowed},
		{name: "other account, identity only", who: bob, identity: allow, resource: names(account, "Allow"),
			elsewhere: true, want: ImplicitDeny,
			reason: "because no resource-based policy allows the eks:DescribeCluster action"},
		{name: "other account, resource only", who: bob,
			resource: names(`{"AWS": "arn:aws:iam::444455556666:user/bob"}`, "Allow"), elsewhere: true,
			want: ImplicitDeny, reason: "because no identity-based policy allows the eks:DescribeCluster action"},
		{name: "other account, boundary silent", who: bob, identity: allow, boundary: allowOther,
			resource: names(`"*"`, "Allow"), elsewhere: true, want: ImplicitDeny,
			reason: "because no permissions boundary allows the eks:DescribeCluster action"},
		{name: "root of another account", who: bobs, resource: names(other, "Allow"), elsewhere: true, want: Allowed},
		{name: "root of another account, not named", who: bobs, resource: names(account, "Allow"), elsewhere: true,
			want: ImplicitDeny, reason: "because no resource-based policy allows the eks:DescribeCluster action"},

		{name: "root needs no policy", who: root, want: Allowed},
		{name: "root heeds denies of resources", who: root, resource: names(account, "Deny"), want: ExplicitDeny,
			reason: "with an explicit deny in a resource-based policy"},
		{name: "root heeds session policies", who: root, session: allowOther, want: ImplicitDeny,
			reason: "because no session policy allows the eks:DescribeCluster action"},
		{name: "a service is named", who: eks,
			resource: names(`{"Service": ["ec2.amazonaws.com", "eks.amazonaws.com"]}`, "Allow"), want: Allowed},
		{name: "a service is not named", who: eks, resource: names(`{"Service": "ec2.amazonaws.com"}`, "Allow"),
			want: ImplicitDeny, reason: "because no resource-based policy allows the eks:DescribeCluster action"},
		{name: "a token's provider is named", who: pod, resource: names(`{"Federated": "`+pod.Name+`"}`, "Allow"),
			want: Allowed},
		{name: "a token is not everyone", who: pod, resource: names(`"*"`, "Allow"), want: ImplicitDeny,
			reason: "because no resource-based policy allows the eks:DescribeCluster action"},
		{name: "named by unique id", who: alice, resource: names(`{"AWS": "AIDAALICE000000000001"}`, "Allow"),
			want: Allowed},
		{name: "role named by unique id", who: nodeRole, resource: names(`{"AWS": "AROANODE0000000000001"}`, "Allow"),
			want: Allowed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := &Policies{
				Identity: sources(t, Identity, test.identity), Boundary: sources(t, Identity, test.boundary),
				Session: sources(t, Identity, test.session), Resource: sources(t, Resource, test.resource),
				ResourceMust: test.must,
			}
			if test.elsewhere {
				p.ResourceAccount = "111122223333"
			}
			d := Evaluate(&Request{Action: "eks:DescribeCluster", Resource: cluster, Principal: test.who}, p)
			if d.Verdict != test.want || d.Reason() != test.reason {
				t.Errorf("got %s %q, want %s %q", d.Verdict, d.Reason(), test.want, test.reason)
			}
		})
	}
}

func TestReasonNamesTheManagedPolicy(t *testing.T) {
	t.Parallel()
	p := &Policies{Identity: sources(t, Identity, statement(`{"Effect": "Deny", "Action": "*", "Resource": "*"}`))}
	p.Identity[0].ARN = "arn:aws:iam::111122223333:policy/no"
	d := Evaluate(&Request{Action: "eks:DescribeCluster", Resource: cluster, Principal: alice}, p)
	if want := "with an explicit deny in an identity-based policy: arn:aws:iam::111122223333:policy/no"; d.Reason() != want {
		t.Errorf("got %q, want %q", d.Reason(), want)
	}
}

func TestMissingKeys(t *testing.T) {
	t.Parallel()
	p := sources(t, Identity, statement(
		`{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:s3:::${aws:username}/*", "Condition": {"StringEquals": {"aws:RequestTag/team": "${aws:PrincipalTag/team}", "aws:SourceIp": "1.2.3.4"}, "ArnLike": {"aws:SourceArn": "arn:aws:s3:::${s3:prefix}"}}}`))
	missing, err := MissingKeys(p, Context{"AWS:sourceip": {"1.2.3.4"}}, nil)
	got := fmt.Sprint(missing)
	if want := "[aws:PrincipalTag/team aws:RequestTag/team aws:SourceArn aws:username s3:prefix]"; err != nil ||
		got != want {
		t.Errorf("got %s, want %s: %v", got, want, err)
	}
}

func TestMatchesPointAtTheText(t *testing.T) {
	t.Parallel()
	text := "{\n  \"Version\": \"2012-10-17\",\n  \"Statement\": [\n    {\"Effect\": \"Allow\", \"Action\": " +
		"\"s3:*\", \"Resource\": \"*\"},\n    {\"Effect\": \"Deny\", \"Action\": \"*\", \"Resource\": \"*\"}\n  ]\n}"
	matches, err := Matches(&Request{Action: "eks:ListClusters", Resource: "*", Principal: alice},
		sources(t, Identity, text))
	if err != nil || len(matches) != 1 {
		t.Fatalf("%d statements match, want 1: %v", len(matches), err)
	}
	if s := matches[0].Statement; s.Start != (Position{5, 5}) || s.End != (Position{5, 55}) {
		t.Errorf("the statement stands from %s to %s", s.Start, s.End)
	}
}

func TestCompileRemembers(t *testing.T) {
	t.Parallel()
	text := statement(`{"Effect": "Allow", "Action": "eks:*", "Resource": "*"}`)
	one, err := Compile(Identity, text)
	if err != nil {
		t.Fatal(err)
	}
	if two, err := Compile(Identity, strings.Clone(text)); err != nil || one != two {
		t.Errorf("the same text gives %p and %p (%v)", one, two, err)
	}
	if _, err := Compile(Trust, text); err == nil {
		t.Error("an identity-based policy passes as a trust policy")
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func BenchmarkEvaluate(b *testing.B) {
	var actions strings.Builder
	for i := range 500 {
		fmt.Fprintf(&actions, `"svc%d:Describe*", `, i)
	}
	large := statement(`[{"Effect": "Allow", "Action": [` + actions.String() +
		`"eks:Describe*"], "Resource": "*"}, {"Effect": "Deny", "Action": "iam:*", "Resource": "*"}]`)
	own := statement(
		`{"Effect": "Allow", "Action": "eks:*", "Resource": "arn:aws:eks:*:*:cluster/${aws:username}-*", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}`)
	p := &Policies{Identity: sources(b, Identity, own, large)}
	r := &Request{Action: "eks:DescribeCluster", Resource: cluster, Principal: alice,
		Keys: Context{"aws:username": {"hulk"}, "aws:SourceIp": {"10.1.2.3"}}}
	b.ReportAllocs()
	for b.Loop() {
		if d := Evaluate(r, p); !d.Allowed() {
			b.Fatal(d.Reason())
		}
	}
}

func TestGrantsOfResources(t *testing.T) {
	t.Parallel()
	const (
		key       = "arn:aws:kms:us-east-1:111122223333:key/0"
		allowAll  = `{"Effect": "Allow", "Action": "kms:*", "Resource": "*"}`
		denyAll   = `{"Effect": "Deny", "Action": "kms:Encrypt", "Resource": "*"}`
		rootMay   = `{"Effect": "Allow", "Principal": {"AWS": "111122223333"}, "Action": "kms:*", "Resource": "*"}`
		nobody    = `{"Effect": "Deny", "Principal": "*", "Action": "kms:Encrypt", "Resource": "*"}`
		otherMay  = `{"Effect": "Allow", "Principal": {"AWS": "444455556666"}, "Action": "kms:*", "Resource": "*"}`
		someoneMy = `{"Effect": "Allow", "Principal": {"AWS": "AIDAEVE00000000000001"}, "Action": "kms:*", "Resource": "*"}`
	)
	for name, test := range map[string]struct {
		who                                   Principal
		identity, boundary, session, resource string
		grantees                              []string
		want                                  Verdict
	}{
		"a grant is enough":                       {alice, "", "", "", someoneMy, []string{alice.ID}, Allowed},
		"of another, it is none":                  {alice, "", "", "", someoneMy, []string{bob.ID}, ImplicitDeny},
		"the policy must allow without a grant":   {alice, allowAll, "", "", someoneMy, nil, ImplicitDeny},
		"no policy, no grant":                     {root, "", "", "", someoneMy, nil, ImplicitDeny},
		"the policy enables policies of IAM":      {alice, allowAll, "", "", rootMay, nil, Allowed},
		"and no more than that":                   {alice, "", "", "", rootMay, nil, ImplicitDeny},
		"a deny of the caller's outweighs it":     {alice, denyAll, "", "", someoneMy, []string{alice.ID}, ExplicitDeny},
		"a deny of the resource outweighs it":     {alice, "", "", "", nobody, []string{alice.ID}, ExplicitDeny},
		"to a role, within its boundary":          {nodeRole, "", allowAll, "", someoneMy, []string{nodeRole.ID}, Allowed},
		"to a role, beyond its boundary":          {nodeRole, "", statementOfEKS, "", someoneMy, []string{nodeRole.ID}, ImplicitDeny},
		"to a role, beyond its session":           {nodeRole, "", "", statementOfEKS, someoneMy, []string{nodeRole.ID}, ImplicitDeny},
		"to an account: its policies must allow":  {alice, "", "", "", someoneMy, []string{root.ARN}, ImplicitDeny},
		"to an account whose policies allow":      {alice, allowAll, "", "", someoneMy, []string{root.ARN}, Allowed},
		"to an account: its root user":            {root, "", "", "", someoneMy, []string{root.ARN}, Allowed},
		"across accounts it is enough":            {bob, "", "", "", someoneMy, []string{bob.ID}, Allowed},
		"across accounts to the account":          {bob, "", "", "", someoneMy, []string{bobs.ARN}, ImplicitDeny},
		"across accounts, and its policies allow": {bob, allowAll, "", "", someoneMy, []string{bobs.ARN}, Allowed},
		"across accounts the policy alone is not": {bob, "", "", "", otherMay, nil, ImplicitDeny},
		"everybody is no grantee":                 {alice, "", "", "", someoneMy, []string{"*"}, ImplicitDeny},
	} {
		wrap := func(s string) string {
			if s == "" {
				return ""
			}
			return statement(s)
		}
		got := Evaluate(&Request{Action: "kms:Encrypt", Resource: key, Principal: test.who}, &Policies{
			Identity: sources(t, Identity, wrap(test.identity)), Boundary: sources(t, Identity, wrap(test.boundary)),
			Session: sources(t, Identity, wrap(test.session)), Resource: sources(t, Resource, wrap(test.resource)),
			ResourceAccount: "111122223333", ResourceMust: true, Grantees: test.grantees,
		})
		if got.Verdict != test.want {
			t.Errorf("%s: %s %s", name, got.Verdict, got.Reason())
		}
	}
}

const statementOfEKS = `{"Effect": "Allow", "Action": "eks:*", "Resource": "*"}`

// A key whose value is not known allows nothing, and where it could deny, it does.
func TestUnreadKeys(t *testing.T) {
	t.Parallel()
	const allow = `{"Effect":"Allow","Action":"s3:*","Resource":"*"}`
	statement := func(effect, action, condition string) string {
		return fmt.Sprintf(`{"Effect":%q,"Action":%q,"Resource":"*","Condition":%s}`, effect, action, condition)
	}
	for name, test := range map[string]struct {
		statements string
		want       Verdict
		says       string
	}{
		"no conditions": {allow, Allowed, ""},
		"it is known": {allow + "," + statement("Deny", "*", `{"StringEquals":{"s3:prefix":"x"}}`),
			Allowed, ""},
		"it allows": {statement("Allow", "*", `{"StringEqualsIfExists":{"s3:tag":"x"}}`),
			ImplicitDeny, "no identity-based policy"},
		"it is absent": {statement("Allow", "*", `{"Null":{"s3:tag":"true"}}`),
			ImplicitDeny, "no identity-based policy"},
		"it denies": {allow + "," + statement("Deny", "*", `{"StringEquals":{"S3:tag":"x"}}`),
			ImplicitDeny, "condition key S3:tag"},
		"another condition is not met": {allow + "," + statement("Deny", "*",
			`{"StringEquals":{"s3:tag":"x","s3:prefix":"x"}}`), Allowed, ""},
		"another action": {allow + "," + statement("Deny", "s3:Put*", `{"StringEquals":{"s3:tag":"x"}}`),
			Allowed, ""},
		"a variable denies": {allow + "," + statement("Deny", "*", `{"StringEquals":{"s3:prefix":"${s3:tag}"}}`),
			ImplicitDeny, "condition key s3:tag"},
		"a variable denies others": {allow + "," + statement("Deny", "*",
			`{"StringNotEquals":{"s3:prefix":["x","${s3:tag, 'x'}"]}}`), ImplicitDeny, "condition key s3:tag"},
		"a variable allows": {statement("Allow", "*", `{"StringNotEquals":{"s3:prefix":"${s3:tag, 'x'}"}}`),
			ImplicitDeny, "no identity-based policy"},
		"a variable that is known": {statement("Allow", "*", `{"StringEquals":{"s3:prefix":"${s3:prefix}"}}`),
			Allowed, ""},
		"a resource allows": {`{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::b/${s3:tag, 'k'}"}`,
			ImplicitDeny, "no identity-based policy"},
		"another resource allows": {`{"Effect":"Allow","Action":"s3:*",
			"Resource":["arn:aws:s3:::b/${s3:tag}","arn:aws:s3:::b/k"]}`, Allowed, ""},
		"a resource denies": {allow + `,{"Effect":"Deny","Action":"s3:*","Resource":"arn:aws:s3:::b/${s3:tag}"}`,
			ImplicitDeny, "condition key s3:tag"},
		"other resources are denied": {allow + `,{"Effect":"Deny","Action":"s3:*",
			"NotResource":"arn:aws:s3:::b/${s3:tag}"}`, ImplicitDeny, "condition key s3:tag"},
		"a variable that differs": {allow + "," + statement("Deny", "*",
			`{"StringEquals":{"s3:prefix":"b/${s3:tag}"}}`), Allowed, ""},
		"another bucket is denied": {allow + `,{"Effect":"Deny","Action":"s3:*","Resource":"arn:aws:s3:::c/${s3:tag}"}`,
			Allowed, ""},
	} {
		document, err := Compile(Identity, `{"Version":"2012-10-17","Statement":[`+test.statements+`]}`)
		if err != nil {
			t.Fatal(err)
		}
		d := Evaluate(&Request{Action: "s3:GetObject", Resource: "arn:aws:s3:::b/k", Principal: alice,
			Keys:   Context{"s3:prefix": {"a"}},
			Unread: func(key string) bool { return strings.HasPrefix(strings.ToLower(key), "s3:") }},
			&Policies{Identity: []Source{{Document: document}}})
		if d.Verdict != test.want || !strings.Contains(d.Reason(), test.says) {
			t.Errorf("%s: %s %s", name, d.Verdict, d.Reason())
		}
	}
}
