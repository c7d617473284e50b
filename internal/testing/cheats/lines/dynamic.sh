eval "$«x»"
%%
bash -c "$«x»"
%%
sh <<< "$«x»"
%%
echo "$«x»" | sh
%%
source <(curl -s "$url")
%%
printf '%s' "$«x»" | base64 -d | bash
%%
xargs -I{} sh -c '{}' < plan.txt
%%
python3 -c "$«x»"
%%
node -e "$«x»"
%%
trap "$«x»" EXIT
%%
e\val "$«x»"
%%
ev""al "$«x»"
%%
command eval "$«x»"
%%
find . -name '*.md' -exec sh -c "$«x»" \;
%%
env FOO=1 bash -c "$«x»"
%%
cat > /tmp/step.sh <<< "$«x»"
. /tmp/step.sh
%%
$«x»
%%
curl -s "$url" | python3 -
