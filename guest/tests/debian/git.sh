# git: commits, branches, a merge with and without a conflict, rebase, stash, bisect, gc, a clone, fsck
# deb: git,dash,coreutils,grep,sed,findutils,diffutils,mawk
# mem: 1G
set -e
cd /tmp; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b TZ=UTC HOME=/tmp
export GIT_AUTHOR_DATE='2024-01-01T00:00:00Z' GIT_COMMITTER_DATE='2024-01-01T00:00:00Z' GIT_PAGER=cat
git config --global init.defaultBranch main; git config --global gc.writeCommitGraph true
git init -q r; cd r
mkdir -p d/e; seq 200 > numbers; echo one > d/e/one; ln -s d/e/one link; printf '#!/bin/sh\necho hi\n' > run; chmod +x run
git add .; git commit -q -m first; git rev-parse HEAD
git checkout -q -b side; sed -i 's/^50$/fifty/' numbers; git commit -q -am side
git checkout -q main; sed -i 's/^150$/many/' numbers; git mv d/e/one d/two; git commit -q -am main
git merge -q -m merged side; git log --graph --format='%h %s'; git diff --stat HEAD~1; sed -n '50p;150p' numbers
git checkout -q -b clash HEAD~1; sed -i 's/^50$/five tens/' numbers; git commit -q -am clash
git merge main > /dev/null 2>&1 || echo "conflict: $(git diff --name-only --diff-filter=U)"; git checkout -q --theirs numbers; git add numbers; git commit -q -m settled; git rev-parse HEAD
git checkout -q main; for i in $(seq 12); do echo $i > file$i; git add .; git commit -q -m "commit $i"; done
git tag -a -m tagged v1; git checkout -q -b topic HEAD~6; echo t > topic; git add .; git commit -q -m topic; git rebase -q main; git rev-parse HEAD
echo dirty >> numbers; git stash -q; git status --short; git stash pop -q; git status --short; git checkout -q numbers
git bisect start HEAD v1~11 > /dev/null 2>&1; git bisect run sh -c 'test ! -e file7' | grep 'first bad'; git bisect reset > /dev/null 2>&1
git gc -q --aggressive --prune=now; git count-objects -v | grep -E '^(count|packs|in-pack)'; git fsck --full --strict
git clone -q . ../c; git clone -q --no-local --depth 3 . ../shallow; git -C ../c log --oneline | wc -l; git -C ../shallow log --oneline | wc -l
git -C ../c rev-parse HEAD; git worktree add -q ../w side; ls ../w; (cd ../c; echo new > new; git add new; git commit -q -m new; git push -q origin HEAD:pushed); git log -1 --format=%s pushed
git archive --format=tar HEAD | sha256sum; git grep -c 1 HEAD -- numbers; git blame -s -L 50,51 numbers; git format-patch --stdout -1 | grep -v '^[0-9.]*$' | sha256sum
mkdir hooked; git init -q hooked; cd hooked; printf '#!/bin/sh\necho refused >&2; exit 1\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
echo x > x; git add x; git commit -q -m x 2>&1 || echo "status $?"
