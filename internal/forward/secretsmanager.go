package forward

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"

	sigsjson "sigs.k8s.io/json"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// secretOperations are those on one secret, which SecretId names.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awssecretsmanager.html
var secretOperations = map[string]bool{
	"CancelRotateSecret": true, "DeleteResourcePolicy": true, "DeleteSecret": true, "DescribeSecret": true,
	"GetResourcePolicy": true, "GetSecretValue": true, "ListSecretVersionIds": true, "PutResourcePolicy": true,
	"PutSecretValue": true, "RestoreSecret": true, "RotateSecret": true, "TagResource": true, "UntagResource": true,
	"UpdateSecret": true, "UpdateSecretVersionStage": true,
}

// secretKeys reports whether the value of a condition key is not read from requests.
var secretKeys = unreadKeys("secretsmanager", "secretsmanager:name", "secretsmanager:secretid",
	"secretsmanager:versionid", "secretsmanager:versionstage")

var (
	secretName = regexp.MustCompile(`^[A-Za-z0-9/_+=.@-]{1,512}$`)
	// secretSuffix is the end of the ARN of a secret, behind its name.
	secretSuffix = regexp.MustCompile(`^.+-[A-Za-z0-9]{6}$`)
)

const (
	// suffixLength is the length of a secretSuffix with its hyphen.
	suffixLength = 7
	// anySuffix stands for the suffix of a secret that the endpoint does not have, as policies by a name have it.
	anySuffix = "-??????"
	// maxBatch is the number of secrets that BatchGetSecretValue may name.
	maxBatch = 20
	// maxSecretBody is the maximum size in bytes of a body; values have at most 64 KiB.
	maxSecretBody = 1 << 20
)

// readSecretsManager returns what a request for AWS Secrets Manager asks for. The endpoint gets secrets by their names:
// it might read the beginning of another's ARN in an ARN.
func readSecretsManager(r *wire.Forwarded) (*call, error) {
	operation, err := operationOf(r, "secretsmanager")
	if err != nil {
		return nil, err
	}
	if len(r.Body) > maxSecretBody {
		return nil, invalidSecret("The request is too long.")
	}
	in := &secretInput{Forwarded: r, call: jsonCall(wire.AWSJSON11, r.Header.Get("X-Amz-Target"), nil)}
	if in.call.body, err = readBody(r, &in.members); err != nil {
		return nil, err
	}
	return in.call, in.read(operation)
}

// secretMembers are what inputs say about secrets.
type secretMembers struct {
	SecretID     string `json:"SecretId"`
	Name         string
	SecretIDList []string `json:"SecretIdList"`
	Filters      []json.RawMessage
	VersionID    string `json:"VersionId"`
	VersionStage string
	Tags         []json.RawMessage
	// AddReplicaRegions are of another operation, which is not forwarded.
	AddReplicaRegions []json.RawMessage
}

// secretInput is a request, of which a call is made.
type secretInput struct {
	*wire.Forwarded
	members secretMembers
	call    *call
	secrets []*secret
}

// secret is one that a request names.
type secret struct {
	name   string
	arn    string // its own, or what stands for it where that is not known
	suffix string // of the ARN in the request; empty when it has the name
	action string
	id     string // in the request
}

// read sets what an operation needs permission for.
func (in *secretInput) read(operation string) error {
	m := &in.members
	switch {
	case secretOperations[operation]:
		return in.need(operation, "SecretId", m.SecretID)
	case operation == "CreateSecret" && len(m.AddReplicaRegions) > 0:
		return refuse("CreateSecret with AddReplicaRegions")
	case operation == "CreateSecret":
		arn, err := in.arnOf(m.Name)
		if err != nil {
			return err
		}
		if arn == m.Name {
			return badName("name of a secret", arn)
		}
		in.call.targets = in.targetsOn(operation, m.SecretID, arn)
		if len(m.Tags) > 0 {
			in.call.targets = append(in.call.targets, in.targetsOn("TagResource", m.SecretID, arn)...)
		}
	case operation == "GetRandomPassword" || operation == "ListSecrets":
		in.call.targets = in.targetsOn(operation, m.SecretID)
	case operation == "BatchGetSecretValue" && len(m.SecretIDList) > maxBatch:
		return invalidSecret(fmt.Sprintf("SecretIdList has %d secrets; the maximum is %d.", len(m.SecretIDList), maxBatch))
	case operation == "BatchGetSecretValue" && len(m.SecretIDList) > 0 && m.Filters == nil:
		in.call.first = in.targetsOn(operation, m.SecretID)
		return in.need("GetSecretValue", "SecretIdList", m.SecretIDList...)
	case operation == "BatchGetSecretValue":
		return refuse("BatchGetSecretValue with filters: give it a SecretIdList")
	default:
		return refuse("the operation %s of Secrets Manager", operation)
	}
	return nil
}

func invalidSecret(why string) error {
	return &wire.Error{Code: "ValidationException", Status: http.StatusBadRequest, Message: why}
}

// targetsOn returns the targets of an action on resources, by what the request says about a secret.
func (in *secretInput) targetsOn(action, id string, resources ...string) []wire.Target {
	return targetsOn(in.Forwarded, "secretsmanager:"+action, in.conditions(id), secretKeys, resources...)
}

// conditions returns the condition keys that the operation has. A member that means nothing to it sets none.
func (in *secretInput) conditions(id string) map[string][]string {
	conditions := map[string][]string{}
	set := func(name, value string) {
		if value != "" {
			conditions["secretsmanager:"+name] = []string{value}
		}
	}
	set("SecretId", id)
	switch in.call.operation {
	case "CreateSecret":
		set("Name", in.members.Name)
	case "GetSecretValue":
		set("VersionId", in.members.VersionID)
		set("VersionStage", in.members.VersionStage)
	case "UpdateSecretVersionStage":
		set("VersionStage", in.members.VersionStage)
	}
	return conditions
}

// need adds an action on secrets, which a member of the body names, and has the endpoint asked for them.
func (in *secretInput) need(action, member string, ids ...string) error {
	var names []string
	for _, id := range ids {
		arn, err := in.arnOf(id)
		if err != nil {
			return err
		}
		s := &secret{name: id, arn: arn, action: action, id: id}
		if id == arn {
			full := strings.TrimPrefix(id, in.prefix())
			s.name, s.suffix = full[:len(full)-suffixLength], full[len(full)-suffixLength:]
		}
		names = append(names, s.name)
		in.secrets = append(in.secrets, s)
		in.call.targets = append(in.call.targets, in.targetsOn(action, id, arn)...)
	}
	var value any = names
	if member == "SecretId" {
		value = names[0]
	}
	in.call.resolve = in.resolve
	return in.setMember(member, value)
}

func (in *secretInput) prefix() string { return arnOf(in.Forwarded, "secretsmanager", "secret:") }

// arnOf returns the ARN of a secret by what SecretId has. The six random characters at the end of an ARN, which the
// endpoint alone knows of a name, are question marks. An ARN without them is refused, as it would escape a Deny.
func (in *secretInput) arnOf(id string) (string, error) {
	prefix, name := in.prefix(), id
	if strings.HasPrefix(id, "arn:") {
		var ok bool
		if name, ok = strings.CutPrefix(id, prefix); !ok {
			return "", notOurs(id)
		}
		if !secretSuffix.MatchString(name) {
			return "", badName("ARN of a secret: it lacks the six characters behind the name", id)
		}
	} else {
		id = prefix + id + anySuffix
	}
	if !secretName.MatchString(name) {
		return "", badName("name of a secret", name)
	}
	return id, nil
}

// setMember replaces a member of the body.
func (in *secretInput) setMember(name string, value any) error {
	var members map[string]json.RawMessage
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(in.call.body, &members); err != nil {
		return err
	}
	var err error
	if members[name], err = json.Marshal(value); err != nil {
		return err
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false) // the request is escaped as it is sent
	if err := encoder.Encode(members); err != nil {
		return err
	}
	in.call.body = bytes.TrimSuffix(body.Bytes(), []byte("\n"))
	return nil
}

// resolve finds the ARNs of the secrets, as AWS does before it authorizes a request: a policy may have the ARN of a
// secret that the request names by its name. Where the endpoint has no such secret, what stands for the ARN stays.
func (in *secretInput) resolve(ctx context.Context, ask asker) error {
	found := map[string]*description{}
	in.call.resolved = map[string]string{}
	for _, s := range in.secrets {
		if _, ok := found[s.name]; !ok {
			d, err := describeSecret(ctx, ask, s.name)
			if err != nil {
				return err
			}
			found[s.name] = d
		}
	}
	var targets []wire.Target
	var err error
	for _, s := range in.secrets {
		d := found[s.name]
		if d == nil || s.suffix != "" && s.suffix != d.suffix {
			targets = append(targets, in.targetsOn(s.action, s.id, s.arn)...)
			if d != nil {
				err = &wire.Error{Code: "ResourceNotFoundException", Status: http.StatusBadRequest,
					Message: "Secrets Manager can't find the specified secret."}
			}
			continue
		}
		arn := in.prefix() + s.name + d.suffix
		in.call.resolved[arn] = s.arn
		conditions := in.conditions(s.id)
		maps.Copy(conditions, d.tags)
		targets = append(targets, targetsOn(in.Forwarded, "secretsmanager:"+s.action, conditions, secretKeysButTags, arn)...)
	}
	in.call.targets = targets
	return err
}

// secretKeysButTags is secretKeys for a secret whose tags are known.
func secretKeysButTags(key string) bool {
	key = strings.ToLower(key)
	return secretKeys(key) && !strings.HasPrefix(key, "aws:resourcetag/") &&
		!strings.HasPrefix(key, "secretsmanager:resourcetag/")
}

// description is what an endpoint says about a secret.
type description struct {
	suffix string // of its ARN
	tags   map[string][]string
}

// describeSecret asks the endpoint about a secret by its name; nil when there is none.
func describeSecret(ctx context.Context, ask asker, name string) (*description, error) {
	body, err := json.Marshal(map[string]string{"SecretId": name})
	if err != nil {
		return nil, err
	}
	const service, operation = "secretsmanager", "DescribeSecret"
	answer, code, err := ask(ctx, jsonCall(wire.AWSJSON11, service+"."+operation, body))
	switch {
	case err != nil:
		return nil, err
	case code == "ResourceNotFoundException":
		return nil, nil
	case code != "":
		return nil, unusable(service, operation, "is "+code)
	}
	var out struct {
		ARN, Name string
		Tags      []struct{ Key, Value string }
	}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(answer, &out); err != nil {
		return nil, unusable(service, operation, "is no JSON")
	}
	_, full, _ := strings.Cut(out.ARN, ":secret:")
	suffix, ok := strings.CutPrefix(full, name)
	if !ok || out.Name != name || len(suffix) != suffixLength || !secretSuffix.MatchString(full) {
		return nil, unusable(service, operation, "does not have the name that was asked for, and an ARN of it")
	}
	d := &description{suffix: suffix, tags: map[string][]string{}}
	for _, tag := range out.Tags {
		d.tags["aws:ResourceTag/"+tag.Key] = []string{tag.Value}
		d.tags["secretsmanager:ResourceTag/"+tag.Key] = []string{tag.Value}
	}
	return d, nil
}
