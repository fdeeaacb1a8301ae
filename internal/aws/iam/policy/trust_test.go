package policy

import "testing"

func TestTrustPolicies(t *testing.T) {
	t.Parallel()
	assume := statement(`{"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}`)
	for _, test := range []struct {
		name     string
		who      Principal
		identity string
		trust    string
		action   string
		keys     Context
		want     Verdict
		reason   string
	}{
		{name: "service", who: eks,
			trust: `{"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}`,
			want:  Allowed},
		{name: "user named", who: alice,
			trust: `{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::111122223333:user/alice"}, "Action": "sts:AssumeRole"}`, want: Allowed},
		{name: "account named, user not allowed", who: alice,
			trust: `{"Effect": "Allow", "Principal": {"AWS": "111122223333"}, "Action": "sts:AssumeRole"}`,
			want:  ImplicitDeny, reason: "because no identity-based policy allows the sts:AssumeRole action"},
		{name: "account named, user allowed", who: alice, identity: assume,
			trust: `{"Effect": "Allow", "Principal": {"AWS": "111122223333"}, "Action": "sts:AssumeRole"}`,
			want:  Allowed},
		{name: "not named, user allowed", who: alice, identity: assume,
			trust: `{"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}`,
			want:  ImplicitDeny, reason: "because no role trust policy allows the sts:AssumeRole action"},
		{name: "denied by trust", who: alice, identity: assume,
			trust: `[{"Effect": "Allow", "Principal": "*", "Action": "sts:*"}, {"Effect": "Deny", "Principal": {"AWS": "111122223333"}, "Action": "sts:AssumeRole"}]`, want: ExplicitDeny, reason: "with an explicit deny in the role trust policy"},
		{name: "other account", who: bob, identity: assume,
			trust: `{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::444455556666:root"}, "Action": "sts:AssumeRole"}`, want: Allowed},
		{name: "other account without the external id", who: bob, identity: assume,
			trust: `{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::444455556666:root"}, "Action": "sts:AssumeRole", "Condition": {"StringEquals": {"sts:ExternalId": "x"}}}`, want: ImplicitDeny, reason: "because no role trust policy allows the sts:AssumeRole action"},
		{name: "other account with the external id", who: bob, identity: assume,
			trust: `{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::444455556666:root"}, "Action": "sts:AssumeRole", "Condition": {"StringEquals": {"sts:ExternalId": "x"}}}`, keys: Context{"sts:ExternalId": {"x"}}, want: Allowed},
		{name: "service account", who: pod, action: "sts:AssumeRoleWithWebIdentity",
			trust: `{"Effect": "Allow", "Principal": {"Federated": "` + pod.Name +
				`"}, "Action": "sts:AssumeRoleWithWebIdentity", "Condition": {"StringEquals": {"oidc.eks.us-east-1.amazonaws.com/id/X:sub": "system:serviceaccount:ns:sa", "oidc.eks.us-east-1.amazonaws.com/id/X:aud": "sts.amazonaws.com"}}}`,
			keys: Context{"oidc.eks.us-east-1.amazonaws.com/id/X:sub": {"system:serviceaccount:ns:sa"},
				"oidc.eks.us-east-1.amazonaws.com/id/X:aud": {"sts.amazonaws.com"}}, want: Allowed},
		{name: "other service account", who: pod, action: "sts:AssumeRoleWithWebIdentity",
			trust: `{"Effect": "Allow", "Principal": {"Federated": "` + pod.Name +
				`"}, "Action": "sts:AssumeRoleWithWebIdentity", "Condition": {"StringLike": {"oidc.eks.us-east-1.amazonaws.com/id/X:sub": "system:serviceaccount:kube-*:*"}}}`,
			keys: Context{"oidc.eks.us-east-1.amazonaws.com/id/X:sub": {"system:serviceaccount:ns:sa"}},
			want: ImplicitDeny, reason: "because no role trust policy allows the sts:AssumeRoleWithWebIdentity action"},
		{name: "other action", who: pod, action: "sts:AssumeRoleWithWebIdentity",
			trust:  `{"Effect": "Allow", "Principal": {"Federated": "` + pod.Name + `"}, "Action": "sts:AssumeRole"}`,
			want:   ImplicitDeny,
			reason: "because no role trust policy allows the sts:AssumeRoleWithWebIdentity action"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := &Policies{Identity: sources(t, Identity, test.identity),
				Resource: sources(t, Trust, statement(test.trust)), ResourceAccount: "111122223333", ResourceMust: true,
				Trust: true}
			d := Evaluate(&Request{Action: or(test.action, "sts:AssumeRole"), Resource: nodeRole.IAMARN,
				Principal: test.who, Keys: test.keys}, p)
			if d.Verdict != test.want || d.Reason() != test.reason {
				t.Errorf("got %s %q, want %s %q", d.Verdict, d.Reason(), test.want, test.reason)
			}
		})
	}
}

func TestNotPrincipal(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		who    Principal
		effect string
		not    string
		speaks bool
	}{
		{"deny: user and account listed", alice, "Deny", `["arn:aws:iam::111122223333:user/alice", "111122223333"]`,
			false},
		{"deny: user listed without the account", alice, "Deny", `"arn:aws:iam::111122223333:user/alice"`, true},
		{"deny: someone else listed", bob, "Deny", `["arn:aws:iam::111122223333:user/alice", "111122223333"]`, true},
		{"deny: role without the session", nodeRole, "Deny",
			`["arn:aws:iam::111122223333:role/path/node", "111122223333"]`, true},
		{"deny: role, session and account", nodeRole, "Deny",
			`["arn:aws:iam::111122223333:role/path/node", "arn:aws:sts::111122223333:assumed-role/node/i-1", "111122223333"]`, false},
		{"deny: user without the federated session", guest, "Deny",
			`["arn:aws:iam::111122223333:user/alice", "111122223333"]`, true},
		{"deny: federated session without its user", guest, "Deny",
			`["arn:aws:sts::111122223333:federated-user/guest", "111122223333"]`, true},
		{"deny: user, federated session and account", guest, "Deny",
			`["AIDAALICE000000000001", "arn:aws:sts::111122223333:federated-user/guest", "111122223333"]`, false},
		{"allow: user of the federated session listed", guest, "Allow",
			`"arn:aws:iam::111122223333:user/alice"`, false},
		{"deny: root listed", root, "Deny", `"111122223333"`, false},
		{"allow: user listed", alice, "Allow", `"arn:aws:iam::111122223333:user/alice"`, false},
		{"allow: account listed", alice, "Allow", `"111122223333"`, false},
		{"allow: someone else listed", bob, "Allow", `"111122223333"`, true},
		{"allow: a service is not an account", eks, "Allow", `"111122223333"`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := sources(t, Resource, statement(`{"Effect": "`+test.effect+`", "NotPrincipal": {"AWS": `+test.not+
				`}, "Action": "*", "Resource": "*"}`))
			matches, err := Matches(&Request{Action: "kms:Decrypt", Resource: "*", Principal: test.who}, p)
			if got := len(matches) == 1; err != nil || got != test.speaks {
				t.Errorf("the statement speaks about the caller: %v, want %v", got, test.speaks)
			}
		})
	}
}
