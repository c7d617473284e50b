// As main.py, for clients of Node. Before version 24, fetch takes no proxy of the
// environment by itself: undici's agent of the same name does.
const base = process.env.BASE, json = { "Content-Type": "application/json" }, body = JSON.stringify({ n: 1 })
if (process.argv[2] === "axios") {
  const { default: axios } = await import("axios")
  console.log((await axios.get(base + "/page?a=1")).data)
  console.log((await axios.post(base + "/post", { n: 1 })).data)
} else {
  const undici = await import("undici")
  undici.setGlobalDispatcher(new undici.EnvHttpProxyAgent())
  console.log(await (await undici.fetch(base + "/page?a=1")).text())
  console.log(await (await undici.fetch(base + "/post", { method: "POST", headers: json, body })).text())
}
