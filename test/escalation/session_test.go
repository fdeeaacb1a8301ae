package escalation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// anybodyHere returns a trust policy that trusts every principal of the account that its own policies allow.
func anybodyHere(actions ...string) string { return trust(`{"AWS":"`+account+`"}`, actions...) }

// trusting returns a trust policy that trusts mallory under a condition.
func trusting(operator, key, value string) string {
	s := statement{
		"Effect": "Allow", "Principal": map[string]string{"AWS": mallory}, "Action": []string{"sts:AssumeRole",
			"sts:TagSession", "sts:SetSourceIdentity"},
	}
	return document(s.when(operator, key, value))
}

// trusts changes a role's trust policy.
func trusts(role, text string) func(*fixture) {
	return func(w *fixture) {
		w.do(
			w.root.iam.UpdateAssumeRolePolicy(
				w.t.Context(),
				&iam.UpdateAssumeRolePolicyInput{RoleName: &role, PolicyDocument: &text},
			),
		)
	}
}

// givenRole creates a role with a trust policy that may do everything.
func givenRole(trust string) func(*fixture) {
	return func(w *fixture) { w.role("free", trust, everybody) }
}

// assumes assumes the role "free".
func assumes(edit func(*fixture, *sts.AssumeRoleInput)) func(*fixture) error {
	return func(w *fixture) error {
		in := assuming("free")
		edit(w, in)
		return failed(w.me.sts.AssumeRole(w.t.Context(), in))
	}
}

func plainly(*fixture, *sts.AssumeRoleInput) {}

func tagged(_ *fixture, in *sts.AssumeRoleInput) {
	in.Tags = []ststypes.Tag{{Key: p("team"), Value: p("admins")}}
}

func sourced(_ *fixture, in *sts.AssumeRoleInput) { in.SourceIdentity = p("boss") }

// limited creates a user in a session of the role "free" that a request has limited.
func limited(edit func(*fixture, *sts.AssumeRoleInput)) func(*fixture) error {
	return func(w *fixture) error {
		c := w.assume("free", func(in *sts.AssumeRoleInput) { edit(w, in) })
		return failed(c.iam.CreateUser(w.t.Context(), &iam.CreateUserInput{UserName: p("friend")}))
	}
}

// becomes changes what a path tries with.
func becomes(text string) func(*fixture) { return func(w *fixture) { w.id = text } }

// both does one thing after the other.
func both(first, second func(*fixture)) func(*fixture) {
	return func(w *fixture) {
		first(w)
		second(w)
	}
}

// chained assumes the role "free" and with it the role "vault".
func chained(w *fixture, edit func(*sts.AssumeRoleInput)) error {
	in := assuming("vault")
	edit(in)
	return failed(w.assume("free", func(in *sts.AssumeRoleInput) {
		in.Tags, in.TransitiveTagKeys = []ststypes.Tag{{Key: p("team"), Value: &w.id}}, []string{"team"}
	}).sts.AssumeRole(w.t.Context(), in))
}

// vault creates a role that trusts sessions of the role "free", under a condition.
func vault(operator, key, value string) func(*fixture) {
	return func(w *fixture) {
		w.role("free", toMe("sts:TagSession", "sts:SetSourceIdentity"), everybody)
		s := statement{
			"Effect": "Allow", "Principal": map[string]string{"AWS": prefix + "role/free"},
			"Action": []string{"sts:AssumeRole", "sts:TagSession", "sts:SetSourceIdentity"},
		}
		w.role("vault", document(s.when(operator, key, value)), everybody)
	}
}

var sessionPaths = []path{
	{
		name: "sts: AssumeRole that the role leaves to policies", given: givenRole(anybodyHere("sts:AssumeRole")),
		needs: []statement{allow("sts:AssumeRole").on(weakARN)},
		stops: []statement{allow("sts:AssumeRole").on(prefix + "role/free")}, try: assumes(plainly),
	},
	{
		name:  "sts: AssumeRole of a role that does not trust",
		given: givenRole(trust(`{"AWS":"`+bossARN+`"}`, "sts:AssumeRole")),
		needs: []statement{allow("sts:*")}, open: trusts("free", toMe()), try: assumes(plainly),
	},
	{
		name:  "sts: AssumeRole of a role that trusts a service",
		given: givenRole(trust(`{"Service":"ec2.amazonaws.com"}`, "sts:AssumeRole")),
		needs: []statement{allow("sts:*")}, open: trusts("free", toMe()), try: assumes(plainly),
	},
	{
		name: "sts: AssumeRole of a role that denies",
		given: givenRole(document(
			statement{"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"},
			statement{"Effect": "Deny", "Principal": map[string]string{"AWS": mallory}, "Action": "sts:AssumeRole"},
		)),
		needs: []statement{allow("sts:*")}, open: trusts("free", toMe()), try: assumes(plainly),
	},
	{
		name: "sts: AssumeRole of a role with a path, by its name alone",
		given: func(w *fixture) {
			w.do(w.root.iam.CreateRole(w.t.Context(), &iam.CreateRoleInput{
				RoleName: p("deep"), Path: p("/bosses/"), AssumeRolePolicyDocument: p(toMe()),
			}))
			w.id = "deep"
		},
		open: becomes("bosses/deep"),
		try:  func(w *fixture) error { return failed(w.me.sts.AssumeRole(w.t.Context(), assuming(w.id))) },
	},
	{
		name:  "sts: AssumeRole without the external ID",
		given: givenRole(trusting("StringEquals", "sts:ExternalId", "secret")),
		open:  becomes("secret"),
		try: assumes(func(w *fixture, in *sts.AssumeRoleInput) {
			if w.id != "" {
				in.ExternalId = &w.id
			}
		}),
	},
	{
		name:  "sts: AssumeRole under the session name of another",
		given: givenRole(trusting("StringEquals", "sts:RoleSessionName", "${aws:username}")), open: becomes("mallory"),
		try: assumes(func(w *fixture, in *sts.AssumeRoleInput) {
			if in.RoleSessionName = p("boss"); w.id != "" {
				in.RoleSessionName = &w.id
			}
		}),
	},
	{
		name: "sts: beyond the session policy", given: both(givenRole(toMe()), becomes(document(allow("iam:List*")))),
		open: becomes(everybody),
		try:  limited(func(w *fixture, in *sts.AssumeRoleInput) { in.Policy = &w.id }), changes: []string{},
	},
	{
		name: "sts: beyond the session's managed policy", given: both(givenRole(toMe()), becomes(readOnly)),
		open: becomes(adminOf),
		try: limited(
			func(w *fixture, in *sts.AssumeRoleInput) {
				in.PolicyArns = []ststypes.PolicyDescriptorType{{Arn: &w.id}}
			},
		),
	},
	{
		name:  "sts: a session policy gives no more than the role",
		given: func(w *fixture) { w.role("free", toMe(), document(allow("iam:List*"))) },
		open: func(w *fixture) {
			w.do(
				w.root.iam.PutRolePolicy(
					w.t.Context(),
					&iam.PutRolePolicyInput{RoleName: p("free"), PolicyName: p("may"), PolicyDocument: p(everybody)},
				),
			)
		},
		try: limited(func(w *fixture, in *sts.AssumeRoleInput) { in.Policy = p(everybody) }),
	},
	{
		name: "sts: session tags without TagSession in the trust policy", given: givenRole(toMe()),
		needs: []statement{allow("sts:AssumeRole")},
		open:  trusts("free", toMe("sts:TagSession")), try: assumes(tagged),
	},
	{
		name:  "sts: session tags without TagSession in one's own policies",
		given: givenRole(anybodyHere("sts:AssumeRole", "sts:TagSession")),
		needs: []statement{
			allow("sts:AssumeRole"),
		}, stops: []statement{allow("sts:TagSession").on(prefix + "role/free")}, try: assumes(tagged),
	},
	{
		name:  "sts: session tags with a value that the role does not take",
		given: givenRole(trusting("StringEquals", "aws:RequestTag/team", "crew")),
		open:  trusts("free", trusting("StringEquals", "aws:RequestTag/team", "admins")), try: assumes(tagged),
	},
	{
		name: "sts: a source identity without SetSourceIdentity in the trust policy", given: givenRole(toMe()),
		open: trusts("free", toMe("sts:SetSourceIdentity")), try: assumes(sourced),
	},
	{
		name: "sts: a source identity without SetSourceIdentity in one's own policies",
		given: givenRole(
			anybodyHere("sts:AssumeRole", "sts:SetSourceIdentity"),
		), needs: []statement{allow("sts:AssumeRole")},
		stops: []statement{allow("sts:SetSourceIdentity").on(prefix + "role/free")}, try: assumes(sourced),
	},
	{
		name:  "sts: a source identity that the role does not take",
		given: givenRole(trusting("StringEquals", "sts:SourceIdentity", "mallory")),
		open:  trusts("free", trusting("StringEquals", "sts:SourceIdentity", "boss")), try: assumes(sourced),
	},
	{
		name:  "sts: another source identity in a chain",
		given: both(vault("StringLike", "sts:SourceIdentity", "*"), becomes("boss")), open: becomes("mallory"),
		try: func(w *fixture) error {
			in := assuming("vault")
			in.SourceIdentity = &w.id
			first := w.assume("free", func(in *sts.AssumeRoleInput) { in.SourceIdentity = p("mallory") })
			return failed(first.sts.AssumeRole(w.t.Context(), in))
		},
	},
	{
		name:  "sts: a chain to a role that trusts other tags",
		given: both(vault("StringEquals", "aws:PrincipalTag/team", "admins"), becomes("crew")), open: becomes("admins"),
		try: func(w *fixture) error { return chained(w, func(*sts.AssumeRoleInput) {}) },
	},
	{
		name:  "sts: a chain that asks for other tags than those it was given",
		given: both(vault("StringEquals", "aws:PrincipalTag/team", "admins"), becomes("crew")), open: becomes("admins"),
		try: func(w *fixture) error {
			return chained(
				w,
				func(in *sts.AssumeRoleInput) { in.Tags = []ststypes.Tag{{Key: p("rank"), Value: p("admins")}} },
			)
		},
	},
	{
		name: "sts: a transitive tag stays with the chain",
		given: func(w *fixture) {
			vault("StringLike", "aws:PrincipalTag/team", "*")(w)
			w.do(w.root.iam.PutRolePolicy(w.t.Context(), &iam.PutRolePolicyInput{
				RoleName: p("vault"), PolicyName: p("may"),
				PolicyDocument: p(document(allow("iam:*").when("StringEquals", "aws:PrincipalTag/team", "admins"))),
			}))
			w.do(w.root.iam.TagRole(w.t.Context(), &iam.TagRoleInput{
				RoleName: p("vault"), Tags: []iamtypes.Tag{{Key: p("team"), Value: p("admins")}},
			}))
			w.id = "crew"
		},
		open: becomes("admins"),
		try: func(w *fixture) error {
			first := w.assume("free", func(in *sts.AssumeRoleInput) {
				in.Tags, in.TransitiveTagKeys = []ststypes.Tag{{Key: p("team"), Value: &w.id}}, []string{"team"}
			})
			out, err := first.sts.AssumeRole(w.t.Context(), assuming("vault"))
			if err != nil {
				return err
			}
			return failed(
				w.with(out.Credentials).iam.CreateUser(w.t.Context(), &iam.CreateUserInput{UserName: p("friend")}),
			)
		},
	},
	{
		name: "sts: GetFederationToken", needs: []statement{allow("sts:AssumeRole")},
		stops: []statement{allow("sts:GetFederationToken").on("arn:aws:sts::" + account + ":federated-user/guest")},
		try: func(w *fixture) error {
			return failed(w.me.sts.GetFederationToken(w.t.Context(), &sts.GetFederationTokenInput{Name: p("guest")}))
		},
	},
	{
		name:  "sts: GetFederationToken with tags without TagSession",
		needs: []statement{allow("sts:GetFederationToken")},
		stops: []statement{allow("sts:TagSession")},
		try: func(w *fixture) error {
			return failed(w.me.sts.GetFederationToken(w.t.Context(), &sts.GetFederationTokenInput{
				Name: p("guest"), Tags: []ststypes.Tag{{Key: p("team"), Value: p("admins")}},
			}))
		},
	},
	{
		name:  "sts: a federated user's policy gives no more than the user has",
		needs: []statement{allow("sts:GetFederationToken")},
		stops: []statement{allow("eks:ListClusters")},
		try: func(w *fixture) error {
			out, err := w.me.sts.GetFederationToken(
				w.t.Context(),
				&sts.GetFederationTokenInput{Name: p("guest"), Policy: p(everybody)},
			)
			if err != nil {
				return err
			}
			return failed(w.with(out.Credentials).eks.ListClusters(w.t.Context(), nil))
		},
	},
	{
		name: "sts: GetSessionToken gives no more than the user has", needs: []statement{allow("eks:DescribeCluster")},
		stops: []statement{allow("eks:ListClusters")},
		try: func(w *fixture) error {
			out, err := w.me.sts.GetSessionToken(w.t.Context(), &sts.GetSessionTokenInput{})
			if err != nil {
				return err
			}
			return failed(w.with(out.Credentials).eks.ListClusters(w.t.Context(), nil))
		},
	},
	{
		name: "sts: a session of a role ends with the role's permissions", given: givenRole(toMe()),
		needs: []statement{},
		open: func(w *fixture) {
			w.do(
				w.root.iam.DeleteRolePermissionsBoundary(
					w.t.Context(),
					&iam.DeleteRolePermissionsBoundaryInput{RoleName: p("free")},
				),
			)
		},
		try: func(w *fixture) error {
			c := w.assume("free")
			if w.id == "" { // it is bounded while the session lasts
				w.id = "bounded"
				w.do(w.root.iam.PutRolePermissionsBoundary(w.t.Context(), &iam.PutRolePermissionsBoundaryInput{
					RoleName: p("free"), PermissionsBoundary: p(readOnly),
				}))
			}
			return failed(c.iam.CreateUser(w.t.Context(), &iam.CreateUserInput{UserName: p("friend")}))
		},
		changes: []string{"roles"},
	},
	{
		name: "sts: AssumeRoleWithWebIdentity of a token for another audience", given: federated,
		open: becomes("sts.amazonaws.com"),
		try:  func(w *fixture) error { return w.webIdentity("system:serviceaccount:apps:admin", w.id) },
	},
	{
		name: "sts: AssumeRoleWithWebIdentity of another service account's token",
		given: both(
			federated,
			becomes("system:serviceaccount:other:admin"),
		), open: becomes("system:serviceaccount:apps:admin"),
		try: func(w *fixture) error { return w.webIdentity(w.id, "sts.amazonaws.com") },
	},
	{
		name: "sts: AssumeRoleWithWebIdentity of a role that trusts another provider",
		given: both(
			federated,
			trusts(
				"pods",
				trust(`{"Federated":"`+prefix+`oidc-provider/ci.example.com"}`, "sts:AssumeRoleWithWebIdentity"),
			),
		),
		open: trusts("pods", trust(`{"Federated":"`+provider+`"}`, "sts:AssumeRoleWithWebIdentity")),
		try:  func(w *fixture) error { return w.webIdentity("system:serviceaccount:apps:admin", "sts.amazonaws.com") },
	},
}

const (
	clusterID = "0123456789ABCDEF0123456789ABCDEF"
	provider  = prefix + "oidc-provider/oidc.eks." + region + ".amazonaws.com/id/" + clusterID
)

// federated creates a cluster whose issuer the account trusts, and a role for its service account apps/admin.
func federated(w *fixture) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.do(nil, err)
	w.key = key
	jwks, err := json.Marshal(
		jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}},
	)
	w.do(nil, err)
	w.do(record.Issuers(w.Store).Create(w.t.Context(), store.Key(clusterID), record.Issuer{
		Account: account, Region: region, Cluster: "dev", JWKS: jwks,
	}))
	w.do(w.root.iam.CreateOpenIDConnectProvider(w.t.Context(), &iam.CreateOpenIDConnectProviderInput{
		Url: p(record.IssuerURL(region, clusterID)), ClientIDList: []string{"sts.amazonaws.com", "another"},
	}))
	issuer := "oidc.eks." + region + ".amazonaws.com/id/" + clusterID
	w.role("pods", document(statement{
		"Effect": "Allow", "Principal": map[string]string{"Federated": provider},
		"Action": "sts:AssumeRoleWithWebIdentity",
		"Condition": map[string]any{"StringEquals": map[string]string{
			issuer + ":sub": "system:serviceaccount:apps:admin", issuer + ":aud": "sts.amazonaws.com",
		}},
	}), everybody)
	w.id = "another"
}

// webIdentity assumes the role "pods" with a token of the cluster.
func (w *fixture) webIdentity(subject, audience string) error {
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: w.key, KeyID: "k"}},
		nil,
	)
	w.do(nil, err)
	token, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: record.IssuerURL(region, clusterID), Subject: subject, Audience: jwt.Audience{audience},
		IssuedAt: jwt.NewNumericDate(w.Now()), Expiry: jwt.NewNumericDate(w.Now().Add(time.Hour)),
	}).Serialize()
	w.do(nil, err)
	return failed(w.me.sts.AssumeRoleWithWebIdentity(w.t.Context(), &sts.AssumeRoleWithWebIdentityInput{
		RoleArn: p(prefix + "role/pods"), RoleSessionName: p("session"), WebIdentityToken: &token,
	}))
}
