package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/fields"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	roleAnnotation = "eks.amazonaws.com/role-arn"
	agentSelector  = "app.kubernetes.io/name=eks-pod-identity-agent"
	agentNamespace = "kube-system"
	// variables by which SDKs in a pod find credentials
	agentVariable, roleVariable = "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_ROLE_ARN"

	maxDenials    = 10
	maxStatements = 50 // of a policy
	maxStatement  = 500
)

// chain follows the way from a pod to its role.
type chain struct {
	*Inspector
	ctx     context.Context
	cluster record.Cluster
	api     *client.Client
	pod     *corev1.Pod // nil when the question is about a service account
	out     admin.Identity
}

func (c *chain) step(name, state, problem string) {
	c.out.Steps = append(c.out.Steps, admin.IdentityStep{Name: name, State: state, Problem: problem})
}

// Identity follows the way from a pod or a service account to its IAM role, and says what the role may do.
func (i *Inspector) Identity(ctx context.Context, q admin.IdentityQuestion) (admin.Identity, error) {
	cluster, plane, err := i.findCluster(ctx, fields.Question{Cluster: q.Cluster})
	if err != nil {
		return admin.Identity{}, err
	}
	config, err := i.readerConfig(ctx, cluster, plane)
	if err != nil {
		return admin.Identity{}, err
	}
	api, err := client.New(config, cluster.Name, config.UserAgent)
	if err != nil {
		return admin.Identity{}, err
	}
	defer api.Close()
	c := &chain{Inspector: i, ctx: ctx, cluster: cluster, api: api}
	c.out = admin.Identity{Cluster: cluster.Name, Namespace: q.Namespace, Pod: q.Pod, ServiceAccount: q.ServiceAccount}
	if q.Pod != "" {
		c.pod, err = api.Core.Pods(q.Namespace).Get(ctx, q.Pod, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return c.out, &admin.Refused{Reason: fmt.Sprintf("there is no pod %s in namespace %s of cluster %s", q.Pod,
				q.Namespace, cluster.Name)}
		} else if err != nil {
			return c.out, err
		}
		c.out.ServiceAccount = c.pod.Spec.ServiceAccountName
	}
	return c.out, c.follow()
}

func (c *chain) follow() error {
	account, err := c.api.Core.ServiceAccounts(c.out.Namespace).Get(c.ctx, c.out.ServiceAccount, metav1.GetOptions{})
	annotated := ""
	switch {
	case apierrors.IsNotFound(err) && c.pod == nil:
		c.step("service account", c.out.ServiceAccount, "it does not exist: kubectl create serviceaccount "+
			c.out.ServiceAccount+" -n "+c.out.Namespace)
	case apierrors.IsNotFound(err):
		c.step("service account", c.out.ServiceAccount, "it has been deleted: the pod's tokens are refused")
	case err != nil:
		return err
	default:
		annotated = account.Annotations[roleAnnotation]
		c.step("service account", c.out.ServiceAccount, "")
	}
	association, found, err := resource.AssociationOf(c.ctx, record.PodIdentityAssociations(c.o.Store), c.cluster,
		c.out.Namespace, c.out.ServiceAccount)
	if err != nil {
		return err
	}
	switch {
	case found:
		return c.followAssociation(association, annotated)
	case annotated != "":
		return c.followAnnotation(annotated)
	}
	c.step("role", "none of its own: neither a pod identity association nor the annotation "+roleAnnotation,
		"SDKs in the pod get the role of the node, if its hop limit lets them: aws eks create-pod-identity-association")
	return nil
}

// followAssociation follows EKS Pod Identity.
func (c *chain) followAssociation(p record.PodIdentityAssociation, annotated string) error {
	by := "EKS Pod Identity, association " + p.ID
	if p.OwnerARN != "" {
		by += " of " + p.OwnerARN
	}
	if annotated != "" {
		by += "; the annotation " + roleAnnotation + " is not used"
	}
	c.step("by", by, "")
	c.checkVariable(agentVariable, "", "the association")
	if err := c.checkAgent(); err != nil {
		return err
	}
	pod := ""
	tags := map[string]string{}
	if !p.DisableSessionTags {
		tags = principal.PodTags(c.cluster, c.out.Namespace, c.out.ServiceAccount)
		if c.pod != nil {
			pod = c.pod.Name
			tags["kubernetes-pod-name"], tags["kubernetes-pod-uid"] = pod, string(c.pod.UID)
		}
	}
	keys, actions := principal.PodTrust(p, tags)
	err := c.checkRole(p.RoleARN, policy.Principal{Type: policy.Service, Name: principal.Pods}, principal.Pods, keys,
		actions)
	if err != nil || p.TargetRoleARN == "" {
		return err
	}
	c.step("target role", p.TargetRoleARN+", which the role assumes with the external ID "+p.ExternalID, "")
	return c.describe(p.TargetRoleARN)
}

// followAnnotation follows IAM roles for service accounts.
func (c *chain) followAnnotation(role string) error {
	c.step("by", "IAM roles for service accounts, annotation "+roleAnnotation, "")
	c.checkVariable(roleVariable, role, "the annotation")
	url := strings.TrimPrefix(c.cluster.Issuer(), "https://")
	parsed, ok := principal.Parse(role)
	if !ok || parsed.Kind != "role" {
		c.step("role", role, "it is not the ARN of a role")
		return nil
	}
	row, err := record.OIDCProviders(c.o.Store).Get(c.ctx, record.OIDCProviderKey(parsed.Account, url))
	provider := "arn:aws:iam::" + parsed.Account + ":oidc-provider/" + url
	switch {
	case errors.Is(err, store.ErrNotFound):
		c.step("provider", provider, "it does not exist: eksctl utils associate-iam-oidc-provider --cluster "+
			c.cluster.Name+" --approve")
	case err != nil:
		return err
	case !slices.Contains(row.Value.ClientIDs, "sts.amazonaws.com"):
		c.step("provider", provider, "it lacks the client ID sts.amazonaws.com: "+
			"aws iam add-client-id-to-open-id-connect-provider")
	default:
		c.step("provider", provider, "")
	}
	keys := policy.Context{
		url + ":sub": {"system:serviceaccount:" + c.out.Namespace + ":" + c.out.ServiceAccount},
		url + ":aud": {"sts.amazonaws.com"}, url + ":oaud": {"sts.amazonaws.com"},
		"aws:FederatedProvider": {provider}, "aws:PrincipalIsAWSService": {"false"},
	}
	return c.checkRole(role, policy.Principal{Type: policy.WebIdentity, Name: provider},
		"the token of this service account", keys, []string{"sts:AssumeRoleWithWebIdentity"})
}

// checkVariable checks that a pod was made with what gives it the role. Want is the value, any when it is empty.
func (c *chain) checkVariable(name, want, made string) {
	if c.pod == nil {
		return
	}
	for _, container := range slices.Concat(c.pod.Spec.InitContainers, c.pod.Spec.Containers) {
		for _, v := range container.Env {
			if v.Name == name && (want == "" || v.Value == want) {
				c.step("pod", "has "+name+" and the token", "")
				return
			}
		}
	}
	c.step("pod", "lacks "+name, "it was made before "+made+" or while the daemon was down, or its containers are "+
		"skipped: delete it, so that it is made again")
}

// checkAgent checks that the agent of EKS Pod Identity runs where the pod does.
func (c *chain) checkAgent() error {
	node := ""
	if c.pod != nil {
		node = c.pod.Spec.NodeName
	}
	options := metav1.ListOptions{LabelSelector: agentSelector, Limit: 100}
	if node != "" {
		options.FieldSelector = "spec.nodeName=" + node
	}
	agents, err := c.api.Core.Pods(agentNamespace).List(c.ctx, options)
	if err != nil {
		return err
	}
	for _, agent := range agents.Items {
		for _, condition := range agent.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				c.step("agent", agent.Name+" on "+agent.Spec.NodeName, "")
				return nil
			}
		}
	}
	problem := "install it: aws eks create-addon --cluster-name " + c.cluster.Name + " --addon-name eks-pod-identity-agent"
	state := "none"
	if len(agents.Items) > 0 {
		state, problem = "not ready", "kubectl describe pods -n "+agentNamespace+" -l "+agentSelector
	}
	c.step("agent", state, problem)
	return nil
}

// checkRole checks that a role exists and may be assumed, and describes it.
func (c *chain) checkRole(arn string, who policy.Principal, called string, keys policy.Context, actions []string,
) error {
	role, err := c.o.Identity.RoleByARN(c.ctx, arn)
	if errors.Is(err, store.ErrNotFound) {
		c.step("role", arn, "it does not exist")
		return nil
	} else if err != nil {
		return err
	}
	c.step("role", arn, "")
	problem := ""
	for _, action := range actions {
		d, err := identity.TrustDecision(c.ctx, role, who, action, keys)
		if err != nil {
			return err
		}
		if !d.Allowed() {
			problem = fmt.Sprintf("%s %s %s", action, "is refused", d.Reason())
			break
		}
	}
	state := "lets " + called + " in: " + strings.Join(actions, ", ")
	if problem != "" {
		state = "does not let " + called + " in"
	}
	c.step("trust policy", state, problem)
	return c.describe(arn)
}

// describe says what a role may do, and what it was refused.
func (c *chain) describe(arn string) error {
	role, err := c.o.Identity.RoleByARN(c.ctx, arn)
	if errors.Is(err, store.ErrNotFound) {
		return nil // who assumes it learns that
	} else if err != nil {
		return err
	}
	_, policies, _, err := c.o.Identity.PoliciesOf(c.ctx, role.Account, arn)
	if err != nil {
		return err
	}
	c.out.Role, c.out.Policies, c.out.Denials = arn, nil, nil
	for n, sources := range [][]policy.Source{policies.Identity, policies.Boundary} {
		for _, source := range sources {
			name := source.Name
			if source.ARN != "" {
				name = source.ARN
			}
			c.out.Policies = append(c.out.Policies, admin.IdentityPolicy{Name: name, Boundary: n == 1,
				Statements: summarize(source.Text)})
		}
	}
	sessions := "arn:aws:sts::" + role.Account + ":assumed-role/" + role.Name + "/"
	for _, d := range c.o.Identity.Denials(role.Account) {
		if len(c.out.Denials) < maxDenials && (strings.HasPrefix(d.Principal, sessions) || d.Resource == arn) {
			c.out.Denials = append(c.out.Denials, DescribeDenial(d))
		}
	}
	return nil
}

// summarize returns the statements of a policy, a line each.
func summarize(document string) []string {
	var parsed struct{ Statement json.RawMessage }
	var statements []map[string]any
	if json.Unmarshal([]byte(document), &parsed) != nil {
		return nil
	}
	if json.Unmarshal(parsed.Statement, &statements) != nil {
		var one map[string]any
		if json.Unmarshal(parsed.Statement, &one) != nil {
			return nil
		}
		statements = append(statements, one)
	}
	list := func(v any) string {
		if all, ok := v.([]any); ok {
			texts := []string{}
			for _, one := range all {
				texts = append(texts, fmt.Sprint(one))
			}
			return strings.Join(texts, ", ")
		}
		return fmt.Sprint(v)
	}
	var lines []string
	for _, s := range statements {
		if len(lines) == maxStatements {
			return append(lines, fmt.Sprintf("and %d more", len(statements)-len(lines)))
		}
		line := fmt.Sprint(s["Effect"])
		for _, part := range []struct{ key, before string }{{"Action", " "}, {"NotAction", " all but "}, {"Resource", " on "},
			{"NotResource", " on all but "}} {
			if v, ok := s[part.key]; ok {
				line += part.before + list(v)
			}
		}
		if s["Condition"] != nil {
			line += ", under conditions"
		}
		if len(line) > maxStatement {
			line = line[:maxStatement] + "..."
		}
		lines = append(lines, line)
	}
	return lines
}

// DescribeDenial returns a denial as commands show it.
func DescribeDenial(d identity.Denial) admin.Denial {
	return admin.Denial{
		Principal: d.Principal, Region: d.Region, Action: d.Action, Resource: d.Resource, Reason: d.Reason,
		Policy: d.Policy, Statement: d.Statement, First: d.First, Last: d.Last, Count: d.Count,
		RequestID: d.RequestID, SourceIP: d.SourceIP, UserAgent: d.UserAgent,
	}
}
