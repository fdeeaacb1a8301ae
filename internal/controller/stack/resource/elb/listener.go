package elb

import (
	"cmp"
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// defaultSSLPolicy is the security policy of listeners without the property SslPolicy.
const defaultSSLPolicy = "ELBSecurityPolicy-2016-08"

// listenerSettings are the properties that ModifyListener sets.
var listenerSettings = []string{"AlpnPolicy", "Certificates", "DefaultActions", "MutualAuthentication", "Port",
	"Protocol", "SslPolicy"}

// listeners is the handler of AWS::ElasticLoadBalancingV2::Listener.
var listeners = resource.Handle(resource.Table[*v2.Client, types.Listener]{
	Client: newClient,
	Create: resource.Create((*v2.Client).CreateListener, nil,
		func(out *v2.CreateListenerOutput) *string { return out.Listeners[0].ListenerArn },
		func(r *resource.Request, in *v2.CreateListenerInput) error {
			in.Tags = resource.TagList(r.Wanted("Tags"), newTag)
			return nil
		}),
	Find: func(ctx context.Context, c *v2.Client, r *resource.Request) (string, error) {
		var arns []string
		pages := v2.NewDescribeListenersPaginator(c, &v2.DescribeListenersInput{
			LoadBalancerArn: r.Pointer("LoadBalancerArn")})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return "", err
			}
			for _, l := range page.Listeners {
				arns = append(arns, aws.ToString(l.ListenerArn))
			}
		}
		return findOwned(ctx, c, r, arns)
	},
	Describe: func(ctx context.Context, c *v2.Client, r *resource.Request) (*types.Listener, error) {
		out, err := c.DescribeListeners(ctx, &v2.DescribeListenersInput{ListenerArns: []string{r.PhysicalID}})
		if err != nil {
			return nil, err
		}
		return &out.Listeners[0], nil
	},
	Configure: []resource.Step[*v2.Client]{
		{Properties: listenerSettings, Update: true, Run: modifyListener},
		{Properties: []string{"ListenerAttributes"}, Run: setListenerAttributes},
		setTags,
	},
	Delete: func(ctx context.Context, c *v2.Client, r *resource.Request) error {
		_, err := c.DeleteListener(ctx, &v2.DeleteListenerInput{ListenerArn: &r.PhysicalID})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.Listener) map[string]any {
		return map[string]any{"ListenerArn": aws.ToString(live.ListenerArn)}
	},
	Properties: listenerProperties,
})

// modifyListener gives a listener all that its properties say. What ModifyListener is not told stays as it was, so it
// is told the defaults.
func modifyListener(ctx context.Context, c *v2.Client, r *resource.Request) error {
	called := *r
	called.Properties = map[string]any{}
	for _, name := range listenerSettings {
		called.Properties[name] = r.Properties[name]
	}
	_, err := resource.Call(ctx, c, &called, (*v2.Client).ModifyListener, nil,
		func(_ *resource.Request, in *v2.ModifyListenerInput) error {
			in.ListenerArn = &r.PhysicalID
			if in.Protocol == types.ProtocolEnumHttps || in.Protocol == types.ProtocolEnumTls {
				in.SslPolicy = aws.String(cmp.Or(aws.ToString(in.SslPolicy), defaultSSLPolicy))
			}
			if in.Protocol == types.ProtocolEnumTls && len(in.AlpnPolicy) == 0 {
				in.AlpnPolicy = []string{"None"}
			}
			return nil
		})
	return err
}

// listenerDefault returns what an attribute of listeners is without a property.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ListenerAttribute.html
func listenerDefault(key string) string {
	switch key {
	case "tcp.idle_timeout.seconds":
		return "350"
	case "routing.http.response.server.enabled":
		return "true"
	}
	return "" // of header fields: none of its own
}

// setListenerAttributes sets the attributes of the property, and takes back those that it had before, as far as a
// listener of this protocol has them.
func setListenerAttributes(ctx context.Context, c *v2.Client, r *resource.Request) error {
	wanted, had := attributesOf(r.Properties["ListenerAttributes"]), attributesOf(r.Previous["ListenerAttributes"])
	if len(had) > 0 {
		out, err := c.DescribeListenerAttributes(ctx, &v2.DescribeListenerAttributesInput{ListenerArn: &r.PhysicalID})
		if err != nil {
			return err
		}
		for _, a := range out.Attributes {
			key := aws.ToString(a.Key)
			_, was := had[key]
			if _, stays := wanted[key]; was && !stays {
				wanted[key] = listenerDefault(key)
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	_, err := c.ModifyListenerAttributes(ctx, &v2.ModifyListenerAttributesInput{ListenerArn: &r.PhysicalID,
		Attributes: resource.TagList(wanted, func(key, value string) types.ListenerAttribute {
			return types.ListenerAttribute{Key: &key, Value: &value}
		})})
	return err
}

func listenerProperties(ctx context.Context, c *v2.Client, r *resource.Request, live *types.Listener) (
	map[string]any, error) {
	p := without(resource.Encode(live, nil), "ListenerArn")
	for _, name := range []string{"Certificates", "DefaultActions", "MutualAuthentication"} {
		if said := r.Properties[name]; said != nil && p[name] != nil {
			p[name] = likeTemplate(p[name], said)
		}
	}
	keepSecrets(p["DefaultActions"], r.Properties["DefaultActions"])
	if r.Properties["ListenerAttributes"] != nil {
		out, err := c.DescribeListenerAttributes(ctx, &v2.DescribeListenerAttributesInput{ListenerArn: &r.PhysicalID})
		if err != nil {
			return nil, err
		}
		if list := attributeObjects(r, "ListenerAttributes", out.Attributes,
			func(a types.ListenerAttribute) (key, value *string) { return a.Key, a.Value }); list != nil {
			p["ListenerAttributes"] = list
		}
	}
	return p, putTags(ctx, c, r, p)
}

// keepSecrets gives live actions what the service does not tell of them, as the template has it: client secrets.
func keepSecrets(live, template any) {
	actions, said := resource.Objects(live), resource.Objects(template)
	if len(actions) != len(said) {
		return
	}
	for i, action := range actions {
		config, ok := action["AuthenticateOidcConfig"].(map[string]any)
		of, has := said[i]["AuthenticateOidcConfig"].(map[string]any)
		if !ok || !has {
			continue
		}
		for _, name := range []string{"ClientSecret", "UseExistingClientSecret"} {
			if value, given := of[name]; given {
				config[name] = value
			}
		}
	}
}

// listenerRules is the handler of AWS::ElasticLoadBalancingV2::ListenerRule.
var listenerRules = resource.Handle(resource.Table[*v2.Client, types.Rule]{
	Client: newClient,
	Create: resource.Create((*v2.Client).CreateRule, nil,
		func(out *v2.CreateRuleOutput) *string { return out.Rules[0].RuleArn },
		func(r *resource.Request, in *v2.CreateRuleInput) error {
			in.Tags = resource.TagList(r.Wanted("Tags"), newTag)
			return nil
		}),
	Find: func(ctx context.Context, c *v2.Client, r *resource.Request) (string, error) {
		var arns []string
		pages := v2.NewDescribeRulesPaginator(c, &v2.DescribeRulesInput{ListenerArn: r.Pointer("ListenerArn")})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return "", err
			}
			for _, rule := range page.Rules {
				if !aws.ToBool(rule.IsDefault) {
					arns = append(arns, aws.ToString(rule.RuleArn))
				}
			}
		}
		return findOwned(ctx, c, r, arns)
	},
	Describe: func(ctx context.Context, c *v2.Client, r *resource.Request) (*types.Rule, error) {
		out, err := c.DescribeRules(ctx, &v2.DescribeRulesInput{RuleArns: []string{r.PhysicalID}})
		if err != nil {
			return nil, err
		}
		return &out.Rules[0], nil
	},
	Configure: []resource.Step[*v2.Client]{
		{
			Properties: []string{"Priority"}, Update: true,
			Run: func(ctx context.Context, c *v2.Client, r *resource.Request) error {
				_, err := c.SetRulePriorities(ctx, &v2.SetRulePrioritiesInput{RulePriorities: []types.RulePriorityPair{{
					RuleArn: &r.PhysicalID, Priority: r.Int32("Priority")}}})
				return err
			},
		},
		{
			Properties: []string{"Actions", "Conditions", "Transforms"}, Update: true,
			Run: func(ctx context.Context, c *v2.Client, r *resource.Request) error {
				called := *r
				called.Properties = map[string]any{}
				for _, name := range []string{"Actions", "Conditions", "Transforms"} {
					called.Properties[name] = r.Properties[name]
				}
				_, err := resource.Call(ctx, c, &called, (*v2.Client).ModifyRule, nil,
					func(_ *resource.Request, in *v2.ModifyRuleInput) error {
						in.RuleArn = &r.PhysicalID
						if len(in.Transforms) == 0 {
							in.ResetTransforms = aws.Bool(true)
						}
						return nil
					})
				return err
			},
		},
		setTags,
	},
	Delete: func(ctx context.Context, c *v2.Client, r *resource.Request) error {
		_, err := c.DeleteRule(ctx, &v2.DeleteRuleInput{RuleArn: &r.PhysicalID})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.Rule) map[string]any {
		return map[string]any{"IsDefault": aws.ToBool(live.IsDefault), "RuleArn": aws.ToString(live.RuleArn)}
	},
	Properties: func(ctx context.Context, c *v2.Client, r *resource.Request, live *types.Rule) (map[string]any, error) {
		p := without(resource.Encode(live, nil), "IsDefault", "RuleArn")
		for _, name := range []string{"Actions", "Conditions", "Transforms"} {
			if said := r.Properties[name]; said != nil && p[name] != nil {
				p[name] = likeTemplate(p[name], said)
			}
		}
		keepSecrets(p["Actions"], r.Properties["Actions"])
		// The ARN of a rule is that of its listener, and the rule's ID.
		listener := strings.Replace(r.PhysicalID, ":listener-rule/", ":listener/", 1)
		p["ListenerArn"] = listener[:max(strings.LastIndexByte(listener, '/'), 0)]
		return p, putTags(ctx, c, r, p)
	},
})
