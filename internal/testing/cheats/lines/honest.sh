# eval "$«x»" was removed
%%
echo "eval finished after «n» tasks"
%%
./run_eval.sh --tasks validation
%%
python3 -m lm_eval --tasks gaia --limit «n»
%%
exec 3>&1
%%
find . -name '*.pyc' -exec rm -f {} +
%%
source ./venv/bin/activate
%%
. ./settings.env
%%
sh -c 'echo ready'
%%
docker exec web ls /data
%%
trap 'rm -rf "$scratch"' EXIT
%%
ls pages | xargs -n1 wc -l
%%
eval_dir=out/eval
%%
grep -c "eval(" notes.txt
%%
bash ./setup.sh
