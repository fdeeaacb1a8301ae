package console

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/browser"
)

// network is a template with each way in which a resource depends on another, in the short form of YAML.
const network = `
Parameters:
  WithLogs: {Type: String, Default: "no"}
Conditions:
  HasLogs: !Equals [!Ref WithLogs, "yes"]
Resources:
  Vpc:
    Type: AWS::EC2::VPC
    Properties: {CidrBlock: 10.20.0.0/16}
  Gateway:
    Type: AWS::EC2::InternetGateway
  Attachment:
    Type: AWS::EC2::VPCGatewayAttachment
    Properties: {VpcId: !Ref Vpc, InternetGatewayId: !Ref Gateway}
  Subnet:
    Type: AWS::EC2::Subnet
    DependsOn: Attachment
    Properties: {VpcId: !Ref Vpc, CidrBlock: 10.20.1.0/24}
  Group:
    Type: AWS::EC2::SecurityGroup
    Properties: {VpcId: !GetAtt Vpc.VpcId, GroupDescription: !Sub "of ${Subnet}"}
  Logs:
    Type: AWS::Logs::LogGroup
    Condition: HasLogs
`

// TestStackGraph finds out by keyboard what a resource of a stack depends on, and why.
func TestStackGraph(t *testing.T) {
	t.Parallel()
	chromium, d := browser.Start(t), harness.Start(t)
	template := filepath.Join(t.TempDir(), "network.yaml")
	if err := os.WriteFile(template, []byte(network), 0o600); err != nil {
		t.Fatal(err)
	}
	d.AWS(nil, "cloudformation", "create-stack", "--stack-name", "network", "--template-body", "file://"+template)
	tab := browser.Open(t, chromium, d.Endpoint, 1280, 900)
	tab.Go(link(t, d))
	tab.See("Health issues")
	tab.Go("/console/stacks/network/info")
	tab.See("CREATE_COMPLETE")
	tab.Click("Resources graph")
	tab.See("Select a resource of the graph.")
	nodes := `[...document.querySelectorAll(".stack-graph [role=button]")]`
	tab.Until("see that five resources are there, and one is not",
		nodes+`.filter((e) => e.textContent.endsWith("CREATE_COMPLETE")).length === 5 &&
		`+nodes+`.some((e) => e.textContent === "LogsAWS::Logs::LogGroupNot created")`)
	browser.Evaluate[any](tab, nodes+`.find((e) => e.textContent.startsWith("Subnet")).focus()`)
	tab.Do("go to what waits for the subnet, and select it", chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent("\r"))
	tab.See("Fn::Sub in Properties.GroupDescription")
	tab.See("Fn::GetAtt VpcId in Properties.VpcId")
	tab.Do("go back to the subnet, and select it", chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent("\r"))
	tab.See("DependsOn")
	eachLook(tab, "stack-graph")
}
