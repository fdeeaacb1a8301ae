package iam_test

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	service "github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/iam"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/resourcetest"
	"github.com/coracle-eks/coracle/internal/store"
)

const arn = "arn:aws:iam::" + awstest.Account + ":"

// fixture is IAM, and a stack in it.
type fixture struct {
	*resourcetest.Stack
	client *sdk.Client
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{Stack: resourcetest.New(t, iam.Types, func(mux *wire.Mux, s *store.Store) {
		who, err := identity.New(t.Context(), s, identity.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		service.New(s, who, nil).Register(mux)
	})}
	w.client = sdk.NewFromConfig(w.Config)
	all := w.Keys
	w.Keys = func() []string {
		return slices.DeleteFunc(all(), func(key string) bool {
			return strings.Contains(key, "deletion") // IAM tells what came of the deletions of service-linked roles
		})
	}
	return w
}

// make creates what others need.
func (w *fixture) make(kind, logicalID, properties string) *resource.Request {
	w.T.Helper()
	r := w.Request(logicalID, properties)
	w.Create(kind, r)
	return r
}

const (
	trust = `{"Version": "2012-10-17", "Statement": [
		{"Effect": "Allow", "Principal": {"Service": ["ec2.amazonaws.com"]}, "Action": "sts:AssumeRole"}]}`
	otherTrust = `{"Version": "2012-10-17", "Statement": [
		{"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}]}`
	reads  = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:Describe*", "Resource": "*"}]}`
	writes = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}]}`
	viewer = "arn:aws:iam::aws:policy/ReadOnlyAccess"
	worker = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"
)

func quote(text string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(text) + `"`
}

// lives are the lives of resources of all types, in an account with the roles Role and Second, the user User, and the
// groups Team and Guests.
func lives() map[string]resourcetest.Life {
	policies := `"Policies": [{"PolicyName": "reads", "PolicyDocument": ` + reads + `}],
		"ManagedPolicyArns": ["` + viewer + `"]`
	changed := `{"Policies": [{"PolicyName": "writes", "PolicyDocument": ` + quote(writes) + `}],
		"ManagedPolicyArns": ["` + worker + `"]}`
	bare := `{"Policies": null, "ManagedPolicyArns": null}`
	return map[string]resourcetest.Life{
		"role with a generated name": {
			Type: "AWS::IAM::Role", Taken: true, Ref: "lake-own-1a2b3c",
			Properties: `{"AssumeRolePolicyDocument": ` + trust + `, ` + policies + `, "Path": "/nodes/",
				"Description": "nodes", "MaxSessionDuration": 7200, "PermissionsBoundary": "` + viewer + `",
				"Tags": [{"Key": "kind", "Value": "a"}]}`,
			Updates: []string{changed, bare, `{"AssumeRolePolicyDocument": ` + quote(otherTrust) + `, "Description": null,
				"MaxSessionDuration": null, "PermissionsBoundary": null, "Tags": [{"Key": "kind", "Value": "b"}]}`,
				`{"PermissionsBoundary": "` + worker + `"}`},
			Attributes: map[string]string{"Arn": arn + "role/nodes/lake-own-1a2b3c", "RoleId": "AROA*"},
		},
		"role with a name of its own": {
			Type: "AWS::IAM::Role", Taken: true, Ref: "Own-role",
			Properties: `{"RoleName": "Own-role", "AssumeRolePolicyDocument": ` + trust + `}`,
		},
		"user": {
			Type: "AWS::IAM::User", Taken: true, Ref: "lake-own-1a2b3c",
			Properties: `{"Groups": ["lake-team-1a2b3c"], ` + policies + `, "PermissionsBoundary": "` + viewer + `"}`,
			Updates: []string{changed, bare, `{"Groups": ["lake-guests-1a2b3c"], "Path": "/people/",
				"PermissionsBoundary": null}`, `{"Path": null, "Tags": [{"Key": "a", "Value": "b"}]}`},
			Attributes: map[string]string{"Arn": arn + "user/lake-own-1a2b3c"},
		},
		"group": {
			Type: "AWS::IAM::Group", Properties: `{` + policies + `}`, Ref: "lake-own-1a2b3c",
			Updates:    []string{changed, bare, `{"Path": "/teams/"}`},
			Attributes: map[string]string{"Arn": arn + "group/lake-own-1a2b3c"},
		},
		"group with a name of its own": {
			Type: "AWS::IAM::Group", Properties: `{"GroupName": "Own-group"}`, Ref: "Own-group", Taken: true,
		},
		"policy": {
			Type: "AWS::IAM::Policy", Ref: "lake-own-1a2b3c",
			Properties: `{"PolicyName": "p", "PolicyDocument": ` + reads + `, "Roles": ["lake-role-1a2b3c"],
				"Users": ["lake-user-1a2b3c"]}`,
			Updates: []string{`{"PolicyDocument": ` + writes + `}`, `{"PolicyName": "q"}`,
				`{"Groups": ["lake-team-1a2b3c"], "Users": null}`},
			Attributes: map[string]string{"Id": "lake-own-1a2b3c"},
		},
		"managed policy": {
			Type: "AWS::IAM::ManagedPolicy", Taken: true, Ref: arn + "policy/lake-own-1a2b3c",
			Properties: `{"PolicyDocument": ` + reads + `, "Roles": ["lake-role-1a2b3c"], "Description": "reads"}`,
			Updates: []string{`{"PolicyDocument": ` + writes + `}`, `{"PolicyDocument": ` + reads + `}`,
				`{"PolicyDocument": ` + quote(writes) + `}`, `{"PolicyDocument": ` + reads + `}`,
				`{"PolicyDocument": ` + writes + `}`, `{"PolicyDocument": ` + reads + `}`,
				`{"Roles": null, "Users": ["lake-user-1a2b3c"], "Groups": ["lake-team-1a2b3c"]}`},
			Attributes: map[string]string{"PolicyArn": arn + "policy/lake-own-1a2b3c", "DefaultVersionId": "v1",
				"AttachmentCount": "1", "IsAttachable": "true", "PolicyId": "ANPA*", "CreateDate": "20*"},
		},
		"managed policy with a name of its own": {
			Type: "AWS::IAM::ManagedPolicy", Taken: true, Ref: arn + "policy/a/Own",
			Properties: `{"PolicyDocument": ` + quote(reads) + `, "ManagedPolicyName": "Own", "Path": "/a/"}`,
		},
		"instance profile": {
			Type: "AWS::IAM::InstanceProfile", Properties: `{"Roles": ["lake-role-1a2b3c"], "Path": "/nodes/"}`,
			Taken: true, Ref: "lake-own-1a2b3c", Updates: []string{`{"Roles": ["lake-second-1a2b3c"]}`},
			Attributes: map[string]string{"Arn": arn + "instance-profile/nodes/lake-own-1a2b3c"},
		},
		"instance profile with a name of its own": {
			Type: "AWS::IAM::InstanceProfile", Taken: true, Ref: "Own-profile",
			Properties: `{"InstanceProfileName": "Own-profile", "Roles": ["lake-role-1a2b3c"]}`,
		},
		"user with a name of its own": {
			Type: "AWS::IAM::User", Taken: true, Ref: "Own-user", Properties: `{"UserName": "Own-user"}`,
		},
		"OIDC provider": {
			Type: "AWS::IAM::OIDCProvider", Taken: true, Ref: arn + "oidc-provider/oidc.example.com/id/Own",
			Properties: `{"Url": "https://oidc.example.com/id/Own", "ClientIdList": ["sts.amazonaws.com"]}`,
			Updates: []string{
				`{"ClientIdList": ["a", "b"], "ThumbprintList": ["` + strings.Repeat("ab", 20) + `"]}`,
				`{"ClientIdList": ["b"], "ThumbprintList": null, "Tags": [{"Key": "a", "Value": "b"}]}`,
			},
			Attributes: map[string]string{"Arn": arn + "oidc-provider/oidc.example.com/id/Own"},
		},
		"role policy": {
			Type: "AWS::IAM::RolePolicy", Taken: true, Ref: "Own|lake-role-1a2b3c",
			Properties: `{"PolicyName": "Own", "RoleName": "lake-role-1a2b3c", "PolicyDocument": ` + reads + `}`,
			Updates:    []string{`{"PolicyDocument": ` + writes + `}`},
		},
		"user policy": {
			Type: "AWS::IAM::UserPolicy", Taken: true,
			Properties: `{"PolicyName": "Own", "UserName": "lake-user-1a2b3c", "PolicyDocument": ` + reads + `}`,
			Updates:    []string{`{"PolicyDocument": ` + writes + `}`},
		},
		"group policy": {
			Type: "AWS::IAM::GroupPolicy", Taken: true,
			Properties: `{"PolicyName": "Own", "GroupName": "lake-team-1a2b3c", "PolicyDocument": ` + reads + `}`,
			Updates:    []string{`{"PolicyDocument": ` + writes + `}`},
		},
		"members": {
			Type: "AWS::IAM::UserToGroupAddition", Ref: "lake-own-1a2b3c",
			Properties: `{"GroupName": "lake-team-1a2b3c", "Users": ["lake-user-1a2b3c"]}`,
			Updates:    []string{`{"GroupName": "lake-guests-1a2b3c"}`},
		},
		"access key": {
			Type: "AWS::IAM::AccessKey", Properties: `{"UserName": "lake-user-1a2b3c", "Status": "Inactive"}`,
			Updates:    []string{`{"Status": "Active"}`, `{"Status": null}`},
			Attributes: map[string]string{"SecretAccessKey": "*", "Id": "AKIA*"},
		},
		"service-linked role": {
			Type: "AWS::IAM::ServiceLinkedRole", Ref: "AWSServiceRoleForAutoScaling_Own",
			Properties: `{"AWSServiceName": "autoscaling.amazonaws.com", "CustomSuffix": "Own", "Description": "a"}`,
			Updates:    []string{`{"Description": "b"}`},
			Attributes: map[string]string{"RoleName": "AWSServiceRoleForAutoScaling_Own"},
		},
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	resourcetest.CheckSchema(t, iam.Types, slices.Collect(maps.Values(lives())), map[string][]string{
		"AWS::IAM::AccessKey": {"Serial"}, // for replacements only
	})
}

func TestLives(t *testing.T) {
	t.Parallel()
	for name, life := range lives() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			for _, logicalID := range []string{"Role", "Second"} {
				w.make("AWS::IAM::Role", logicalID, `{"AssumeRolePolicyDocument": `+trust+`}`)
			}
			w.make("AWS::IAM::User", "User", `{}`)
			for _, logicalID := range []string{"Team", "Guests"} {
				w.make("AWS::IAM::Group", logicalID, `{}`)
			}
			w.Run(life)
		})
	}
}

// A stack's role has the tags of the stack below its own, and an update of the stack changes them.
func TestTagsOfTheStack(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.make("AWS::IAM::Role", "Role", `{"AssumeRolePolicyDocument": `+trust+`, "Tags": [{"Key": "a", "Value": "b"}]}`)
	want := func(team string) {
		t.Helper()
		out := awstest.Must[*sdk.GetRoleOutput](t)(w.client.GetRole(t.Context(), &sdk.GetRoleInput{RoleName: &r.PhysicalID}))
		got := map[string]string{}
		for _, tag := range out.Role.Tags {
			got[*tag.Key] = *tag.Value
		}
		if all := resource.MergeTags(r.Tags, map[string]string{"a": "b"}); !maps.Equal(got, all) || got["team"] != team {
			t.Errorf("got tags %v, want %v", got, all)
		}
	}
	want("old")
	if _, err := w.Update("AWS::IAM::Role", r, r.Properties, "new"); err != nil {
		t.Fatal(err)
	}
	want("new")
}

// What somebody else makes while the answer to a creation is lost stays theirs.
func TestWhatOthersMakeMeanwhile(t *testing.T) {
	t.Parallel()
	for kind, properties := range map[string]string{
		"AWS::IAM::AccessKey":         `{"UserName": "lake-user-1a2b3c"}`,
		"AWS::IAM::ServiceLinkedRole": `{"AWSServiceName": "autoscaling.amazonaws.com", "CustomSuffix": "Own"}`,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			w.make("AWS::IAM::User", "User", `{}`)
			create := iam.Types[kind].Create
			own, other := w.Request("Own", properties), w.Request("Other", properties)
			lost, err := create(t.Context(), own)
			if err != nil {
				t.Fatal(err)
			}
			own.Progress, own.Retried = lost.Progress, true
			theirs, err := create(t.Context(), other)
			if err == nil && theirs.PhysicalID == "" {
				other.Progress, other.Retried = theirs.Progress, true
				theirs, err = create(t.Context(), other)
			}
			if err == nil {
				other.PhysicalID = theirs.PhysicalID
			}
			mine, err := create(t.Context(), own)
			if err != nil {
				t.Fatal(err)
			}
			if mine.PhysicalID == other.PhysicalID {
				t.Errorf("both have %s", mine.PhysicalID)
			}
			if other.PhysicalID == "" {
				return // a name that is taken
			}
			if _, _, err := iam.Types[kind].Read(t.Context(), other); err != nil {
				t.Errorf("what somebody else made: %v", err)
			}
		})
	}
}

// What others have attached to a role keeps the stack from deleting it, as on AWS.
func TestDeletionKeepsWhatOthersDid(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.make("AWS::IAM::Role", "Role", `{"AssumeRolePolicyDocument": `+trust+`}`)
	_, err := w.client.AttachRolePolicy(t.Context(), &sdk.AttachRolePolicyInput{
		RoleName: &r.PhysicalID, PolicyArn: aws.String(viewer),
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = iam.Types["AWS::IAM::Role"].Delete(t.Context(), r)
	awstest.WantCode(t, err, "DeleteConflict")

	// An inline policy with the name of one that was never made, but not its document.
	_, err = w.client.PutRolePolicy(t.Context(), &sdk.PutRolePolicyInput{
		RoleName: &r.PhysicalID, PolicyName: aws.String("p"), PolicyDocument: aws.String(reads),
	})
	if err != nil {
		t.Fatal(err)
	}
	never := w.Request("Policy", `{"PolicyName": "p", "PolicyDocument": `+writes+`, "Roles": ["`+r.PhysicalID+`"]}`)
	if _, err := iam.Types["AWS::IAM::Policy"].Delete(t.Context(), never); err != nil {
		t.Fatal(err)
	}
	_, err = w.client.GetRolePolicy(t.Context(), &sdk.GetRolePolicyInput{
		RoleName: &r.PhysicalID, PolicyName: aws.String("p"),
	})
	if err != nil {
		t.Errorf("the policy of somebody else: %v", err)
	}
}

// A failure after the first call names what has been made, so that the engine deletes it.
func TestFailedCreations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ kind, properties, id, code string }{
		"role with a policy that does not exist": {"AWS::IAM::Role", `{"AssumeRolePolicyDocument": ` + trust + `,
			"ManagedPolicyArns": ["arn:aws:iam::aws:policy/Nothing"]}`, "lake-own-1a2b3c", "NoSuchEntity"},
		"role with a bad document": {"AWS::IAM::Role", `{"AssumeRolePolicyDocument": "{}"}`, "",
			"MalformedPolicyDocument"},
		"policy of a role that does not exist": {"AWS::IAM::Policy", `{"PolicyName": "p", "Roles": ["nobody"],
			"PolicyDocument": ` + reads + `}`, "lake-own-1a2b3c", "NoSuchEntity"},
		"access key of nobody": {"AWS::IAM::AccessKey", `{"UserName": "nobody"}`, "", "NoSuchEntity"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			before := w.Keys()
			r := w.Request("Own", c.properties)
			result, err := iam.Types[c.kind].Create(t.Context(), r)
			awstest.WantCode(t, err, c.code)
			if result.PhysicalID != c.id {
				t.Errorf("got the physical ID %q, want %q", result.PhysicalID, c.id)
			}
			r.PhysicalID = result.PhysicalID
			w.Delete(c.kind, r)
			if after := w.Keys(); !slices.Equal(before, after) {
				t.Errorf("records before %q, after %q", before, after)
			}
		})
	}
}

// A policy of nobody is refused before anything is made.
func TestPolicyOfNobody(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.Request("Policy", `{"PolicyName": "p", "PolicyDocument": `+reads+`}`)
	result, err := iam.Types["AWS::IAM::Policy"].Create(t.Context(), r)
	if resource.Classify(err) != resource.InvalidRequest || result.PhysicalID != "" {
		t.Errorf("got %+v, %v", result, err)
	}
}

// Users who were members of a group before stay so when an addition fails. A group that is not there is IAM's error.
func TestAnAdditionThatFailsKeepsMembers(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	handler := iam.Types["AWS::IAM::UserToGroupAddition"]
	user, group := w.make("AWS::IAM::User", "User", `{}`), w.make("AWS::IAM::Group", "Team", `{}`)
	_, err := w.client.AddUserToGroup(t.Context(), &sdk.AddUserToGroupInput{
		GroupName: &group.PhysicalID, UserName: &user.PhysicalID,
	})
	if err != nil {
		t.Fatal(err)
	}
	users := `"Users": ["` + user.PhysicalID + `", "nobody"]}`
	r := w.Request("Members", `{"GroupName": "`+group.PhysicalID+`", `+users)
	noted, err := handler.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.Progress, r.Retried = noted.Progress, true
	_, err = handler.Create(t.Context(), r)
	awstest.WantCode(t, err, "NoSuchEntity")
	r.Progress, r.Creation = nil, noted.Progress
	if _, err := handler.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	out := awstest.Must[*sdk.GetGroupOutput](t)(w.client.GetGroup(t.Context(),
		&sdk.GetGroupInput{GroupName: &group.PhysicalID}))
	if len(out.Users) != 1 {
		t.Errorf("the group has %d members, want the one from before", len(out.Users))
	}
	_, err = handler.Create(t.Context(), w.Request("Elsewhere", `{"GroupName": "none", `+users))
	awstest.WantCode(t, err, "NoSuchEntity")
}
