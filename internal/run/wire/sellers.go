package wire

import "strings"

// modelHosts are where models are sold, and modelDomains the domains whose every host
// is such a place.
var (
	modelHosts = []string{"api.openai.com", "eu.api.openai.com", "us.api.openai.com", "chatgpt.com", "api.anthropic.com", "generativelanguage.googleapis.com", "aiplatform.googleapis.com",
		"api.mistral.ai", "codestral.mistral.ai", "api.cohere.com", "api.cohere.ai", "api.groq.com", "api.together.xyz", "api.together.ai", "openrouter.ai", "api.deepseek.com", "api.x.ai",
		"api.fireworks.ai", "api.perplexity.ai", "router.huggingface.co", "api-inference.huggingface.co", "api.replicate.com", "api.cerebras.ai", "api.sambanova.ai", "api.studio.nebius.ai",
		"dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "api.moonshot.cn", "api.moonshot.ai", "open.bigmodel.cn", "api.z.ai", "api.ai21.com", "api.voyageai.com", "api.jina.ai",
		"models.inference.ai.azure.com", "models.github.ai", "integrate.api.nvidia.com", "api.deepinfra.com", "api.novita.ai", "api.hyperbolic.xyz", "inference.baseten.co"}
	modelDomains = []string{".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com", ".inference.ai.azure.com"}
)

// SellsModels reports whether a host, a name in lower case without a dot at its end, is
// known as one at which models are asked: what goes there belongs to the gateway.
func SellsModels(host string) bool {
	for _, known := range modelHosts {
		if host == known {
			return true
		}
	}
	for _, domain := range modelDomains {
		if strings.HasSuffix(host, domain) {
			return true
		}
	}
	// Of a region: bedrock-runtime.eu-west-1.amazonaws.com, europe-west4-aiplatform.googleapis.com.
	return strings.HasSuffix(host, "-aiplatform.googleapis.com") ||
		strings.HasPrefix(host, "bedrock") && (strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".api.aws") || strings.HasSuffix(host, ".amazonaws.com.cn"))
}
